"""What concerns several parts at once. Pure.

``parts`` (all parts, and what each is built upon), ``views`` (what brokers show each other),
``membership`` (onto the ring, off it and back), ``deaths`` (from a suspicion to a ring without the
dead), ``link_events`` (links and detours that come and go), ``dispatch`` (messages and timers),
``calm_beats`` (heartbeats that change nothing, taken many at once by a driver that can).
"""
