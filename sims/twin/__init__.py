"""The twin of a drill: the same strikes on the same size of ring, in the simulator.

``drills`` (reads what a drill has left), ``twin`` (plays it), ``comparison`` (lays both side by
side, and says what differs by more than chance).
"""
