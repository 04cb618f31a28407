"""The MQTT door: clients of MQTT 3.1.1 and 5 at a broker, as if they were its own.

``codec``, ``properties``, ``packets``, ``reading`` and ``writing`` are the wire format. ``mapping``
turns what MQTT knows into what events have, and back. ``conversation`` is what the door and one
client say to each other, and ``deliveries`` what of it is under way to the client; all of this is
pure. ``outlet`` stands where the connection of a client of our own would stand, and ``door``
listens.
"""
