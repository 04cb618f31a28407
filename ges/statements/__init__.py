"""What the brokers of a context know of the units in it: what is wanted there, and their links.

Held
    ``held`` (the statements of other units, and the units that want a topic).
Made
    ``content`` (a statement from what its unit consists of), ``health`` (whether secure events
    reach all in the unit), ``statements_part`` (tells, takes and compares statements, and says how
    far a subscription is active).
"""
