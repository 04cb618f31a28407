"""A soak of real brokers on loopback: kill, freeze and cut them for minutes, and measure.

``python -m benchmarks.campaigns.live --help``. What is done and measured:
:mod:`benchmarks.campaigns.live.soak`.
"""
