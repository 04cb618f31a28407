"""Who an end is, and whom it believes. Reads files, and uses ssl.

``identity`` (certificates and roles), ``credentials`` (what is shown in handshakes, and may
change), ``revocation`` (lists of revoked identities), ``keyfiles``, ``regular_file`` and
``own_file`` (files on disk, safely), ``tls_handshake`` (who is let in by which certificate).
"""
