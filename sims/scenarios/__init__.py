"""What is done to a ring, with a verdict: stories that a seed repeats.

All of them
    ``stories`` (by name, and how one is played), ``seen`` (what they look at in a ring).
By what happens
    ``joins``, ``deaths``, ``lives`` (brokers that stand still, leave, restart), ``links`` (that
    fail), ``partitions``, ``records`` (who owns them afterwards), ``churn`` (a bit of everything),
    ``quiet`` (nothing).
Without seeds
    ``scopes`` (small ones, explored in many orders).
"""
