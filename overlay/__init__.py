"""overlay: identities, frames, links of several classes, transports, and the sans-IO vocabulary.

The lowest package. It knows nothing of rings or events; see ``docs/architecture.md``.

Vocabulary
    ``machine`` (inputs, effects, facts), ``ids``, ``address``, ``errors``, ``rng``, ``trace``,
    ``wording``, ``circular`` (numbers without an end).
Bytes
    ``frames`` (their layout), ``codec`` (cutting them, and messages), ``fragments`` (long ones in
    slices), ``versions`` (what two ends can say).
One connection
    ``connection``, its queues ``outbox`` and ``lanes``, ``precedence`` and ``turn`` (who is served
    first, and when is written).
Links
    ``driver`` runs a machine; ``calling``, ``accepting``, ``greeting`` and ``handshake`` make
    links, ``link`` and ``link_life`` keep them, ``resend``, ``streams``, ``acknowledging`` and
    ``parting`` lose no event where they end; ``transport`` opens sockets, ``memory`` stands in
    for them in tests.
Strangers
    ``doorkeeper``, ``limits``, ``notices``, ``bulkhead``, ``slices`` (nobody keeps the others
    waiting), ``tidying``.
The weighted multigraph
    ``weights``, ``gauges``, ``soundings`` and ``cost`` (measured), ``multigraph``, ``paths``,
    ``choice``, ``express_range``.
Security
    ``identity``, ``tls``, ``tls_stream``, ``credentials``, ``certificates``, ``keyfiles``,
    ``regular_file`` (and no other); ``revocation``; the authority's side: ``authority``,
    ``issued``, ``rotation``, ``revoking``.
"""
