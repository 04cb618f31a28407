"""Records: who keeps copies of them, and who owns them when their owner is gone. Pure.

Copies
    ``claims`` (what is said of a record), ``holders`` (who keeps copies), ``backups`` (the owner's
    side), ``replicas`` (the holder's).
Owners
    ``homes`` (where a record belongs), ``duties`` (what a death leaves to whom), ``far_estates``
    (copies that lie far from the dead), ``handover``, ``reclaim``, ``overload``, ``lone_verdicts``
    (deaths that nobody bore witness to).
"""
