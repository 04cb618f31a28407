"""Bytes: events and messages as they go between brokers and to clients. Pure.

``topics`` (topics and filters as text), ``events`` (their header, and packing), ``event_runs``
(many with one header), ``source_route`` (an event that names its path), ``messages`` (between
brokers, and with clients), ``link_codec`` (the messages that brokers understand).
"""
