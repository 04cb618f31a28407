"""What the world knows and no broker can.

``ledger`` (who died when, who is right about it, whether the ring is whole).
"""
