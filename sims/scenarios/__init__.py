"""Scenarios: experiments written down as TOML files, and how one is played.

``schema`` (what a file may say), ``library`` (the scenarios that come with chordal), ``files``
(reading one, with every mistake named), ``stage`` (the brokers, and what can be done to them),
``victims`` (who is struck), ``faults`` and ``arrivals`` (what is done, when), ``play`` (one run),
``outcome`` (what it showed).
"""
