"""From a broker to its clients: which of them want an event, and what they have missed. Pure.

To the clients here
    ``delivery`` (which ones get an event), ``subscriber`` (what is needed of a client),
    ``audience`` (which of them want a topic), ``holdings`` (what one is interested in),
    ``interests`` (what the control machine is told of them), ``named`` (clients by name),
    ``realms`` (how far an event goes).
To one of many
    ``choosing`` (which broker serves a queue group), ``queue_members`` (which member there),
    ``sharing`` (what each gets, and what nobody here gets any more).
Kept for clients that subscribe later
    ``retaining`` (stamps, ends, and values as they come), ``first_values`` (to new subscribers).
Kept for clients that lose their broker
    ``past`` (fetched from where it was published), ``kept`` (what has passed of late), ``replay``
    (what one client has missed), ``replays`` (all such clients).
"""
