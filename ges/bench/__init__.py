"""Measuring a ring with events of one's own: what ``chordal bench`` does.

Publishers and subscribers are clients in processes of their own, as a process of Python uses one
processor. ``load`` (what is asked for), ``figures`` (what came of it; percentiles), ``workers``
(processes, and what they say), ``worker`` (one of them), ``publishing``, ``subscribing`` and
``requesting`` (the clients in it), ``run`` (starts the processes, and puts together what they
say), ``conditions`` (under which it was measured).
``ges22`` is the published experiment, with brokers of its own.
"""
