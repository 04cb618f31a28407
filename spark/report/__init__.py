"""What people read: a folder with a page, plots and tables.

``folder`` (puts it in place), ``pages`` (the whole outline), ``outline`` (its blocks, as HTML and
Markdown), ``answer`` (the opening), ``sections`` (times, growth, settings), ``lives`` (churn,
delivery, outliers), ``unanswered`` (questions, footnotes), ``plots``, ``drawing`` (their style),
``levels`` (units, records), ``tables``.
"""
