"""Closing gaps, and going round failed links (paper 004, sections 3.4.1 and 3.4.2). Pure.

``closing`` (a gap whose owner is dead), ``dead_runs`` (several dead side by side), ``link_backups``
(who stands in for a neighbour), ``detours`` (round a link that failed), ``chord_queries`` (who else
may know a way).
"""
