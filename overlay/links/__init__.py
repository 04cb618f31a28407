"""Links from a call to a good-bye, and what strangers may do. Runs on trio.

Making them
    ``calling``, ``accepting``, ``first_message``.
Keeping and ending them
    ``link``, ``lifecycle`` (links and their tasks), ``conversation`` (what is said over one),
    ``acknowledging``, ``parting``; ``severing`` (cut on purpose, by a drill).
What these decide, without I/O; the simulator uses it, too
    ``keeping`` (the table of links), ``taking`` (what has come), ``acknowledgements``,
    ``stillness`` (of links that part).
Strangers and load
    ``doorkeeper`` (who is let in at all), ``bulkhead`` (a fault in one connection ends no other),
    ``counted_log`` (counts what would be logged too often), ``first_seen`` (logs who comes once),
    ``memory_limit`` (on what all hold together), ``heap_trim`` (gives memory back to the system).
"""
