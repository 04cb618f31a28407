"""Links from a call to a good-bye, and what strangers may do. Runs on trio.

Making them
    ``calling``, ``accepting``, ``greeting``.
Keeping and ending them
    ``link``, ``lifecycle`` (the table of links), ``conversation`` (what is said over one),
    ``acknowledging``, ``parting``.
Strangers and load
    ``doorkeeper``, ``bulkhead`` (nobody keeps the others waiting), ``counted_log`` (what would be
    logged too often), ``memory_limit`` (of all together), ``heap_trim`` (memory given back).
"""
