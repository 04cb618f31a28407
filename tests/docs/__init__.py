"""The pages that a newcomer follows, followed: each block of code is run, and its output compared.

``pages`` (a page as a list of blocks), ``session`` (a shell that runs them).
"""
