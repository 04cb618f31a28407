"""How fast: whole brokers, links, the simulator.

``events`` (through one broker, and through rings of them), ``clients`` (under trio and under
asyncio), ``subscriptions`` (what those of others cost), ``activity`` (how long until they are
active), ``slow_readers`` (what they cost a pair), ``matching`` (the time by the number of filters),
``simulator``, ``kernel`` (its clock, beside SimPy). ``links`` is a room of its own: links beside
the limits of the machine.
"""
