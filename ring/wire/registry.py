"""All messages of the ring protocol, for those who make a codec of them."""

from __future__ import annotations

from overlay.machine import Message
from ring.wire import messages, record_messages

RING_MESSAGES: tuple[type[Message], ...] = (
    messages.Intent,
    messages.View,
    messages.ViewRequest,
    messages.Backup,
    messages.BackupRequest,
    messages.Heartbeat,
    messages.Ping,
    messages.Place,
    messages.Pong,
    messages.PeersRequest,
    messages.Peers,
    messages.JoinRequest,
    messages.JoinAccept,
    messages.JoinRefuse,
    messages.TestNeighbour,
    messages.Tested,
    messages.Failed,
    messages.Leaving,
    messages.ChordQuery,
    messages.ChordAnswer,
    messages.Route,
    messages.RouteHeard,
    messages.Routed,
    messages.Relay,
    messages.Meet,
    messages.HeldDead,
    record_messages.RecordSummary,
    record_messages.SummaryAgreed,
    record_messages.IndexRequest,
    record_messages.RecordIndex,
    record_messages.RecordRequest,
    record_messages.Replicate,
    record_messages.Forget,
    record_messages.Fence,
    record_messages.Dispute,
    record_messages.Offer,
    record_messages.OfferAnswer,
    record_messages.Reclaim,
    record_messages.ReclaimAnswer,
    record_messages.Claims,
)
