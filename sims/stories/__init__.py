"""Stories: what is done to a ring, and a verdict. A seed repeats one. Pure.

All of them
    ``stories`` (finds one by name, and plays it), ``seen`` (what they look at in a ring).
By what happens
    ``joins``, ``deaths``, ``lives`` (brokers that stand still, leave, restart), ``links`` (that
    fail), ``partitions``, ``records`` (who owns them afterwards), ``churn`` (a bit of everything),
    ``quiet`` (nothing).
Whole brokers
    ``events`` (that flow while links and brokers fail), ``frames`` (odd ones are thrown),
    ``units`` (events between clusters, which change), ``unit_promises`` (events between clusters
    that do not), ``unit_tables`` (clusters that form, are split and folded), ``unit_doubts``
    (clusters change far away, and events come all the same), ``unit_links`` (links between
    clusters are lost), ``absences`` (brokers are off the ring or gone, and what their clients have
    missed comes), ``survivors`` (all of that in any mixture, and a judge who knows nothing of the
    way of events).
Without seeds
    ``scopes`` (small rings, explored in many orders).
"""
