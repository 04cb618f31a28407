"""Who may publish and subscribe. ``admission`` and ``token_file`` read files, the others are pure.

``rules`` (roles and topics), ``tokens`` and ``token_file`` (who a client is), ``token_proof`` (that
it has its token), ``admission`` (a client that comes: may it, and what).
"""
