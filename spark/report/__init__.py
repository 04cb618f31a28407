"""What people read: a folder with a page, plots and tables.

``folder``, ``pages``, ``plots``, ``tables``.
"""
