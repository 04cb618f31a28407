"""A grid of scenarios over Spark executors.

``grid`` (what a sweep consists of), ``cells`` (one run of it, as it travels), ``results`` (what is
left behind, and where), ``progress`` (how far it is), ``pool`` (so many at once), ``run`` (all of
it), ``command`` (what a user meets), ``study`` (the grid of the study)
"""
