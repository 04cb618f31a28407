"""One run, from settings to rows.

``experiment`` (settings, and the run), ``summary`` (what it came to, for people).
"""
