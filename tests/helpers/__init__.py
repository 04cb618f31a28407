"""What tests put the code on, and what they feed it.

Benches: one part, and the test plays everybody else
    ``bench`` (a ring node), ``node_bench`` (a broker's machine), ``router_bench`` (a router),
    ``stations`` (drivers on a network in memory), ``recorder`` (a simulated world), ``units_ring``
    (a simulated ring of machines that have addresses),
    ``named_ring`` (the same, with names of units), ``moving_units`` (and one unit joins another),
    ``spread_net`` (brokers that do nothing but tell each other things), ``clusters`` (members and
    links put together by hand), ``overlays`` (simulated ones of several clusters, with clients),
    ``secured`` (what whole brokers know of secure links).
Runs
    ``formed`` (overlays that have formed, and are forked for each test), ``budget`` (what each test
    computes), ``examples`` (how many Hypothesis tries).
Values
    ``linear_filters`` (the rules of matching, one filter after the other), ``packed`` (event
    frames), ``runs`` (of events), ``rows`` (of the trace), ``drawn_ring`` (what the live page
    shows), ``strategies`` (wire messages for hypothesis), ``next_version`` (a broker that speaks
    another version), ``next_command`` (``chordal`` with such brokers).
On the network
    ``broker_thread`` (brokers for clients that do not run on trio), ``slow_proxy`` (delays
    what brokers send), ``hanging_up`` (greets as a broker does, and hangs up), ``tap`` (reads what
    goes over sockets), ``dns_server`` (answers as a test tells it), ``http`` (requests to admin
    servers), ``web_certificates`` (what HTTPS needs).
"""
