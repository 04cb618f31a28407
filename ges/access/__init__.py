"""Who may publish, subscribe and operate. ``rules``, ``tokens`` and ``operators`` are pure.

``rules`` (roles and topics), ``tokens`` and ``token_file`` (who a client is), ``admission`` (a
client that comes: may it, and what), ``operators`` (who may see, cut off and move clients).
"""
