"""A grid of experiments over Spark executors.

``grid`` (its cells), ``run`` (runs them).
"""
