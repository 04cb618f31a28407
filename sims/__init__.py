"""sims: the protocol code of production in a deterministic world of virtual time."""
