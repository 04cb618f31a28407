"""Plots: ``drawing`` (what all plots share: style, colours, files), ``curves`` (shares over time).

matplotlib is an extra (``plot``), and heavy: only what draws imports this room.
"""
