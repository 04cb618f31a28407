"""What tests put the code on, and what they feed it.

Benches: one part, and the test plays everybody else
    ``bench`` (a ring node), ``node_bench`` (a broker's machine), ``router_bench`` (a router),
    ``stations`` (drivers on a network in memory).
Values
    ``packed`` (event frames), ``rows`` (of the trace), ``strategies`` (wire messages for
    hypothesis), ``next_version`` (a broker that speaks another version).
On the network
    ``slow_proxy`` (delays what brokers send), ``tap`` (reads what goes over sockets).
"""
