"""How brokers join a ring, and two rings become one (paper 004, section 3.3). Pure.

``newcomer`` (who joins), ``founding`` (who founds the ring where nobody is on one yet),
``gap_owner`` (who gives a place away), ``gap_choice`` (which gap a newcomer is offered), ``guide``
and ``span`` (in which arc, where the layer above says that), ``merge`` (two rings that meet).
"""
