"""Measurements of the ring against its bars."""
