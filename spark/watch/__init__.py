"""Failures that running brokers write down, followed as they come, and held to a promise.

``promise`` (what is to hold), ``source`` (lines of files that grow, as a stream), ``journal``
(what has come, on disk, each incident once), ``rolling`` (quantiles of the last hour), ``follow``
(all of it, batch by batch), ``command`` (what a user meets).
"""
