"""ges: the event service on top of the ring; brokers, the client library and the command.

The client library's door is :func:`ges.client.connect`.
"""
