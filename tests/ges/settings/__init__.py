"""Settings of brokers, and contexts of clients."""
