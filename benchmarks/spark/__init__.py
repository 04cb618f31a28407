"""The analysis, measured: how large a data set may be, and how often a law is told for another.

``planted`` (data whose answers are known), ``scale`` (time and memory, beside DuckDB), ``laws``
(planted, and told).
"""
