"""The broker's side of its clients. Only ``clients``, ``letting_in``, ``reader``,
``on_ring`` and ``backpressure`` need trio.

Clients
    ``session`` (one), ``clients`` (all), ``reader`` (reads what they send), ``visitors`` (those
    that only ask for the status), ``letting_in`` (who may attach).
What they send
    ``intake``, ``subscriptions``, ``subscription_shares`` (what these take, by source),
    ``parking`` and ``parked_events`` (secure events that wait for a path), ``named_events`` (events
    for named clients, until it is known where these are), ``replies``, ``active_notices`` (that a
    subscription is active), ``operators`` (see who is attached, cut off, drain), ``explanations``
    (what would become of an event), ``event_lookup`` (what became of one).
When they have to wait
    ``on_ring`` (until the broker has joined), ``backpressure`` (while queues are crowded),
    ``change_pace`` (when they change their subscriptions too fast).
What they may have missed
    ``absences`` (times in which the broker's place was in doubt).
"""
