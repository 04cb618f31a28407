"""Scenarios: experiments written down as TOML files, and how one is played.

What a file says
    ``schema`` (its keys), ``reference`` (the page about them), ``files`` (reads one, and names
    every mistake), ``library`` (those that come with chordal), ``inputs`` (the files that one
    names), ``sessions`` and ``matrix`` (what is in these: sessions and latencies).
What happens then
    ``play`` (one run), ``forming`` (how it begins), ``stage`` (what can be done to brokers:
    ``ring_stage``, the ring alone, and ``whole_stage``), ``deeds`` (what was done), ``faults``,
    ``adversary``, ``arrivals`` and ``roaming`` (what is done when), ``units`` (names of units) and
    ``estates`` (records that brokers own), ``laws`` (how long brokers stay, as measured in real
    systems).
What it showed
    ``results`` (the rows of a run), ``summary`` (the same in a few numbers), ``phases`` (what it
    met), ``steps`` (the last that happened), ``samples`` (rows of events and of traffic).
"""
