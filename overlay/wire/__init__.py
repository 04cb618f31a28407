"""Frames, cutting them, and what two ends can say. Pure.

``frames`` (their layout), ``codec`` (cutting them, and messages), ``fragments`` (long ones in
slices), ``versions`` (what two ends can say), ``greetings`` (how they begin).
"""
