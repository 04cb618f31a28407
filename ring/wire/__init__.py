"""Messages between brokers of a ring. Pure.

``messages`` (of the ring itself), ``record_messages`` (of records and their copies), ``relay`` (a
message that travels within another), ``registry`` (lists them all).
"""
