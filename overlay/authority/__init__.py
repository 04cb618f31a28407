"""What only the owner of an overlay's authority runs; no broker imports it. Uses files.

``authority`` (create it, issue identities), ``certificates`` (made and signed), ``issued`` (a
record of them), ``rotation`` (of the authority's own key), ``revoking`` (identities).
"""
