"""Where named clients are attached, found through the ring. Pure.

``register`` has what a registrar keeps, ``lookups`` what a source has found out of late, and
``directory_part`` is the part of the machine that tells and asks.
"""
