"""Bytes: events and messages as they go between brokers and to clients. Pure.

Events
    ``topics`` (topics and filters as text), ``events`` (their header, and packing), ``event_flags``
    (what each flag is), ``event_runs`` (many with one header), ``groups`` (who serves which queue
    group), ``levels`` (which units it is for), ``realms`` (how far it goes), ``matter`` (what
    decides who wants it), ``names`` (of the clients that it is for), ``replies`` (where the reply
    to a request goes), ``delivered`` (what a subscriber gets), ``trace_context`` (the trace that an
    event belongs to), ``attributes`` (names and typed values).
Subscriptions
    ``asked`` (all that one may ask for, as one value).
Messages
    ``broker_messages`` (between brokers), ``telling_messages`` (what many are to know),
    ``unit_messages`` (who is in which unit),
    ``relocation_messages`` (while a whole unit moves),
    ``gateway_messages`` (links inside a cluster, and out of it), ``recall_messages`` (what an edge
    asks a source), ``profile_messages`` (what clients want), ``statement_messages`` (what units
    want), ``directory_messages`` (where named clients are), ``link_codec`` (all that brokers
    understand of each other), ``client_messages`` (between a client and its broker),
    ``operator_messages`` (the same for an operator), ``drill_messages`` (and for a drill),
    ``status`` (what a broker says of itself), ``status_names`` (the same as JSON),
    ``status_pages`` (where that is too long for a frame), ``why`` (what it would do with an event),
    ``why_event`` (what it knows of one).
"""
