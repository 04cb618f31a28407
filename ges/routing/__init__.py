"""The way of an event through a broker, and on to other brokers. Pure.

The way itself
    ``parts`` (what it consists of), ``router`` (in, onward, out), ``passing`` (on to other
    brokers), ``arrivals`` (to clients here, in order), ``handing_on`` (what no client here gets any
    more), ``answers`` (to brokers that have asked), ``named_sending`` (to named clients elsewhere),
    ``strays`` (what came to the wrong broker), ``express``, ``reach`` (whether an event may set
    out).
To which brokers
    ``known`` (what the control machine knows), ``plan`` (what a plan is), ``plans`` (which one an
    event follows), ``mask_plan`` (to those that want it), ``coming_in`` and ``entering`` (whom it
    is for where it comes into a unit). While units change: ``arc_plan`` (the tree over the ring).
Over which links
    ``outlets`` (what is needed of links), ``forwarding``, ``holding`` (while a link is down),
    ``rerouting`` (to others), ``stuck`` (while there is no way).
"""
