"""Links from a call to a good-bye, and what strangers may do. Runs on trio.

Making them
    ``calling``, ``accepting``, ``first_message``.
Keeping and ending them
    ``link``, ``lifecycle`` (the table of links), ``conversation`` (what is said over one),
    ``acknowledging``, ``parting``.
Strangers and load
    ``doorkeeper`` (who is let in at all), ``bulkhead`` (a fault in one connection ends no other),
    ``counted_log`` (counts what would be logged too often), ``memory_limit`` (on what all hold
    together), ``heap_trim`` (gives memory back to the system).
"""
