"""Links as their ends tell of them, from what brokers say of themselves."""

from __future__ import annotations

from collections.abc import Iterable

from ges.wire.status import LinkStatus, Status
from overlay.ids import LinkClass
from overlay.multigraph.graph import ends

LinkKey = tuple[str, str, LinkClass]  #: the smaller uid first
Told = dict[LinkKey, dict[str, LinkStatus]]  #: by the uid of the broker that tells of it


def told_links(brokers: Iterable[Status]) -> Told:
    """Return all links, with what each end that was asked tells of it.

    A link that one end alone tells of comes up or goes, or the other end was not asked.
    """
    found: Told = {}
    for status in brokers:
        for link in status.links:
            key = (*ends(status.uid, link.uid), link.link_class)
            found.setdefault(key, {})[status.uid] = link
    return found
