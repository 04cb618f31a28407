"""Who may publish and subscribe. ``rules`` and ``tokens`` are pure; the others read files.

``rules`` (roles and topics), ``tokens`` and ``token_file`` (who a client is), ``admission`` (a
client that comes: may it, and what).
"""
