"""How long brokers stay, and when others come. Pure.

``laws`` (how long a session lasts), ``sessions`` (sessions read from a file), ``arrivals`` (who
comes when one goes, or at random times).
"""
