"""Whole brokers under harm for minutes: what is lost, and what holds.

``attacks`` and ``fuzz`` (strangers at the ports), ``crowds`` and ``strangers`` (hostile ones, in
stories), ``flaps`` (links that break all the time), ``halves`` (a ring cut in two), ``isolations``
(brokers cut off for seconds), ``large`` (many clusters under churn, simulated), ``flowing`` (the
events that flow meanwhile), ``moves`` (clients whose broker is frozen or killed), ``upgrade``
(brokers replaced one at a time), ``live`` (a soak of real processes: a room of its own).
"""
