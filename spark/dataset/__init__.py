"""Rows of experiments, checked as they are read.

``schema`` (the columns), ``files`` (which there are, and whether they are whole), ``load`` (as
frames).
"""
