"""Who may publish, subscribe and operate. ``admission`` and ``token_file`` read files.

``rules`` (roles and topics), ``tokens`` and ``token_file`` (who a client is), ``token_proof`` (that
it has its token), ``admission`` (a client that comes: may it, and what), ``operators`` (who may
see, cut off and move clients). The others are pure.
"""
