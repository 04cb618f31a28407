"""Who uses the brokers of a simulated world. Pure: a workload draws no time and no randomness.

``traffic`` (publishers at a steady rate, and subscribers), ``readers`` (keep single events),
``odd_frames`` (what nobody sends who means well), ``witnesses`` (tell a judge all that befalls
them).
"""
