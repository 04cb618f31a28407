"""A soak of real brokers on loopback: kill, freeze and cut them for minutes, and measure.

``python -m benchmarks.campaigns.live --help``.

What is done
    ``__main__`` (the command), ``soak`` (what is done and measured, the verdict), ``rounds`` (one
    fault each), ``traffic``, ``processes``, ``switchboard`` (cuts links).
What is measured
    ``observing`` (from outside), ``evidence`` (what brokers have written down), ``simulated`` (the
    same in virtual time), ``figures``.
"""
