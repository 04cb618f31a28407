"""Whole brokers under harm for minutes: what is lost, and what holds.

``attacks`` and ``fuzz`` (strangers at the ports), ``crowds`` and ``strangers`` (hostile ones, in
stories), ``flaps`` (links that break all the time), ``large`` (many clusters under churn,
simulated), ``moves`` (clients whose broker is frozen or killed), ``upgrade`` (brokers replaced one
at a time), ``live`` (a soak of real processes: a room of its own).
"""
