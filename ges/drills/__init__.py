"""Drills: a live ring is broken on purpose, within what it survives, and its repair is measured.

``plan`` (what is struck, and when), ``readings`` (what brokers saw, by one clock), ``ground`` (how
a broker is struck that agreed to it), ``started`` (the same for brokers that the drill itself has
started), ``rows`` (what all saw becomes one incident), ``record`` (the data set), ``drill`` (the
course of it), ``conduct`` (from the first process to the last), ``figures`` (in numbers).
"""
