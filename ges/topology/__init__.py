"""Links as measured. Pure.

Parts of a broker's machine
    ``parallel_links`` (express and secure links beside normal ones), ``survey_part``
    (measurements), ``revocation_lists`` (who counts no more), ``declared_links`` (which links carry
    events). ``uid_in_use`` (another process uses this
    broker's uid) is heard before the ring.
Links
    ``survey`` (what is measured).
"""
