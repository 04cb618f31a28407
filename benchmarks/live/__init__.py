"""A soak of real brokers on loopback: kill, freeze and cut them for minutes, and measure.

``python -m benchmarks.live --help``; :mod:`benchmarks.live.soak` says what is done and measured.
"""
