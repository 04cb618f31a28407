"""What people read: a folder with a page, plots and tables.

``folder`` (puts it in place), ``pages`` (the whole outline), ``outline`` (its blocks, as HTML and
Markdown), ``headline`` (the opening), ``recovery_times`` (phases, growth, settings), ``at_work``
(churn, units, records, delivery, outliers), ``open_questions`` (and footnotes), ``plots``,
``tables``.
"""
