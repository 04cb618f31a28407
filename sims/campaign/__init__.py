"""Many runs of scenarios: over all cores, resumable; and the smallest one that still goes wrong.

``cells`` (what is to be run), ``journal`` (what has been run, on disk), ``campaign`` (runs the
rest), ``table`` (what all of it showed), ``shrink`` (makes a scenario smaller).
"""
