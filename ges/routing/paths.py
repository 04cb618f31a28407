"""Ways to brokers that do not go over the direct link, as routing is told of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from overlay.multigraph.weights import LinkKey

#: Uids of the brokers to pass, the last of them the one that it leads to.
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Paths:
    """Relay paths, and detours round failed links; who finds them changes them in place."""

    #: Relay paths in use, by where they lead to and the class of links.
    relays: Mapping[LinkKey, Path] = field(default_factory=dict)
    #: Ways round failed normal links, by the uid at the other end; they begin with this broker.
    detours: Mapping[str, Path] = field(default_factory=dict)
    #: The way to a broker over links of a class as it is known here; it begins with this broker.
    known: Callable[[LinkKey], Path | None] = lambda key: None
    #: Whether events may take the way round the failed link to a broker.
    goes_round: Callable[[str], bool] = lambda uid: True

    def round(self, key: LinkKey) -> Path | None:
        """Return the way round a failed link, if there is one."""
        uid, link_class = key
        detour = self.detours.get(uid) if link_class.is_base else None
        return detour[1:] if detour is not None and self.goes_round(uid) else None
