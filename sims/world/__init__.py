"""Virtual time: hosts, links, and what fails. Pure, and a seed gives the same run again.

``world`` (a heap of what happens next), ``network`` (latencies), ``faults`` (crashes, pauses, cut
links), ``partitions``, ``warm`` (a ring that is whole at once).
"""
