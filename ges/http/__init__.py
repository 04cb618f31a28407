"""The admin server of a broker: health, metrics, JSON and the live page, over HTTP.

From the outside in: ``settings`` (where it listens, and who may come), ``server`` (connections),
``listening`` (why it cannot listen), ``tls`` (its certificates, if it has some), ``connection``
(one of them: HTTP by h11), ``gate`` (whom it lets in), ``guesses`` (wrong tokens of one address),
``answers`` (requests and answers), ``app`` (which path gives what).

What it answers: ``health``, ``metrics``, ``chronicle`` (suspicions, verdicts and repairs so far),
``tail`` (events as they pass), and the live page: ``picture`` (what is drawn), ``assembly`` (how it
follows from what brokers say), ``sightings`` (what they have said), ``observer`` (asks them, while
somebody watches), ``incident_book`` and ``fallen`` (what of it is remembered). The page itself is
in ``page/``: plain JavaScript and SVG.
"""
