"""What tests put the code on, and what they feed it.

Benches: one part, and the test plays everybody else
    ``bench`` (a ring node), ``node_bench`` (a broker's machine), ``router_bench`` (a router),
    ``stations`` (drivers on a network in memory), ``recorder`` (a simulated world), ``units_ring``
    (a simulated ring of machines that have addresses), ``spread_net`` (brokers that do nothing but
    tell each other things).
Values
    ``packed`` (event frames), ``rows`` (of the trace), ``strategies`` (wire messages for
    hypothesis), ``next_version`` (a broker that speaks another version).
On the network
    ``slow_proxy`` (delays what brokers send), ``tap`` (reads what goes over sockets),
    ``dns_server`` (answers as a test tells it).
"""
