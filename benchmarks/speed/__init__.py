"""How fast: whole brokers, links, the simulator.

``events`` (through whole brokers), ``simulator``, ``relay_paths``, ``sorted_order`` (what keeps
sorted order best). ``links`` is a room of its own: links beside the limits of the machine.
"""
