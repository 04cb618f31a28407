"""Where the brokers of a ring are: by DNS, on the local network, or in a file, as it changes.

``targets`` (what ``--join`` may say; pure), ``watching`` (all of them as one list), ``dns_names``,
``local_network`` and ``seed_files`` (one each).
"""
