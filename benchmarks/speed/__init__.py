"""How fast: ``events`` (through whole brokers), ``simulator``, ``ways`` (relay paths), ``links``.

``links`` is a room of its own: links beside the limits of the machine.
"""
