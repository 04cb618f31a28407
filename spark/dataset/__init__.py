"""Rows of experiments, checked as they are read.

``place`` (a folder or a URL), ``column_types`` (what a file must hold), ``rules`` (what must hold
of rows), ``files`` (which there are, and whether they are whole), ``load`` (as frames),
``partitions`` (as frames, of tables in folders by scenario and size).
"""
