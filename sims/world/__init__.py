"""Virtual time: hosts, links, and what fails. Pure, and a seed gives the same run again.

Time and distance
    ``timeline`` (a heap of what happens next), ``clocks`` (that run fast or slow), ``network``
    (latencies), ``conditions`` (a network that loses and delays), ``bandwidth`` (and the queues of
    links that are loaded), ``cuts`` (what becomes of those that fail), ``collecting`` (of garbage,
    which is seldom there).
Rings
    ``world`` (machines alone, whose messages are objects), ``quiet`` (the same without heartbeats
    that change nothing), ``calm_answers`` (pings and questions to chords there), ``faults`` (loss,
    separated pairs, traffic), ``partitions``, ``warm`` (a ring that is whole at once),
    ``warm_units`` (whose units are there at once).
Whole brokers, whose messages and events are bytes
    ``processes`` (and the byte streams between them), ``connections`` (queues before these),
    ``greeting``, ``links``, ``sessions``, ``brokers`` (all of it in one process), ``clients``.
"""
