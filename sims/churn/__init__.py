"""How long brokers stay: ``laws`` (session lengths as measured in real systems). Pure."""
