"""The MQTT door: clients of MQTT 3.1.1 and 5 at a broker, as if they were its own.

For example, ``mosquitto_pub -p 1883 -t sensors/7 -m 21.5`` is an event that all subscribers get.

``codec``, ``properties``, ``packets``, ``reasons``, ``reading`` and ``writing`` are the format.
``greeting`` judges a client's first packet. ``mapping`` turns messages into events, and back.
``gateway`` stands between one client and its broker, and says to each what the other one means; of
it ``wishes`` are the client's subscriptions, ``shared`` those in queue groups, ``aliases`` its
topics with numbers, and ``outgoing`` what is under way to it. All of this is pure.

``stream`` is a client's connection as the broker sees that of any client; ``last_word`` brings the
will of a client that the broker has let go; ``settings`` and ``door`` listen.
"""
