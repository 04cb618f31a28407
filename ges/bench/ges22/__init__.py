"""The published experiment: 22 brokers with declared links, and 102 clients, in real processes.

*Grid Event Service protocols*, section 4. ``topology`` (who stands where, and which links there
are), ``paper`` (the figures that the text of the paper states), ``plan`` (what is measured),
``samples`` (mean, variance, throughput), ``orders`` and ``worker`` (the processes of the clients),
``overlay`` (the 22 processes of brokers), ``clients`` (starts those of the clients), ``experiment``
(one topology from beginning to end), ``files`` and ``plots`` (what is saved).
"""
