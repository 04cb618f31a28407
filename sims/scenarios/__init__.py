"""Scenarios: experiments written down as TOML files, and how one is played.

What a file says
    ``schema`` (its keys), ``reference`` (the page about them), ``files`` (reads one, and names
    every mistake), ``library`` (those that come with chordal), ``sessions`` and ``matrix`` (files
    of sessions and of latencies).
What happens then
    ``play`` (one run), ``forming`` (how it begins), ``stage`` (what can be done to brokers:
    ``ring_stage``, the ring alone, and ``whole_stage``), ``deeds`` (what was done), ``faults`` and
    ``arrivals`` (what is done when), ``phases`` (what it met), ``samples`` (rows of events and of
    traffic).
"""
