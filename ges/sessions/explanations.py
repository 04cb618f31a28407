"""What this broker would do with an event that a client publishes here, and why.

For example, a client asks of ``a/b``. The answer names the members of the cluster that the event
would be for, with the ask of each that matches, the path to each, and the clients here that
get it. A client that may ask for the status of a broker may ask this. But filters and clients are
shown only to a client that may itself subscribe to the topic, and a filter for secure events alone
never over a hop that is not secure. No other client is told how many there are; and one that may
neither read the topic nor publish there is not told which brokers want it.

Work and answer of one question are bounded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ges.delivery.holdings import Recipient
from ges.errors import TopicError
from ges.gateways.next_hops import bits
from ges.matching.containment import covers
from ges.profiles.group_index import Group
from ges.routing.mask_plan import Split
from ges.sessions.session import Session
from ges.stack import Stack
from ges.units.address import LEVELS, UNIT_LIMIT
from ges.units.nodes import level_of
from ges.wire.asked import Ask
from ges.wire.events import NO_DUTY, Duty, Head
from ges.wire.matter import Matter
from ges.wire.names import is_name_filter
from ges.wire.replies import why_not_to_be_read
from ges.wire.topics import check_topic
from ges.wire.why import (
    MAX_ASKS_TOLD,
    MAX_CLIENTS_TOLD,
    MAX_FILTER_BYTES_TOLD,
    MAX_FILTERS_TOLD,
    MAX_GROUPS_TOLD,
    MAX_HOPS_TOLD,
    Why,
    WhyAsk,
    WhyClient,
    WhyFilter,
    WhyGroup,
    WhyHop,
    WhyMember,
    WhyRequest,
    WhyUnit,
)
from overlay.ids import LinkClass, short

MAX_LOOKED_AT = 20_000  #: asks, for one answer: some 20 ms
SECURE = LinkClass.SECURE


class Explanations:
    """Answers :class:`~ges.wire.why.WhyRequest`."""

    def __init__(self, stack: Stack, sessions: Collection[Session]) -> None:
        """``sessions``: the clients that are attached."""
        self._stack = stack
        self._sessions = sessions

    def answer(self, asker: Session, request: WhyRequest) -> Why:
        """Return what would become of an event of that class and topic."""
        return _Answer(self._stack, self._sessions, asker, request).tell()


class _Answer:
    """One question."""

    def __init__(
        self, stack: Stack, sessions: Collection[Session], asker: Session, request: WhyRequest
    ) -> None:
        self._stack = stack
        self._sessions = sessions
        self._asker = asker
        self._request = request
        self._topic = request.topic.encode()
        self._matter = Matter(request.link_class, self._topic, request.realm)
        self._cluster = stack.node.gateways
        self._filter_bytes = MAX_FILTER_BYTES_TOLD
        self._to_look_at = MAX_LOOKED_AT
        self._withheld: str | None = None

    def tell(self) -> Why:
        request, peer = self._request, self._stack.node.peer
        slot, to_all = self._cluster.slot, not self._cluster.is_for_all
        told = (peer.uid, peer.url, request.topic, request.link_class, to_all)
        try:
            check_topic(request.topic)
        except TopicError as error:
            return Why(*told, str(error)[:500], None, slot)
        permissions = self._asker.admission.permissions
        self._withheld = why_not_to_be_read(request.topic, self._asker.uid)
        if permissions is not None and self._withheld is None:
            decision = permissions.subscribe(request.topic)
            self._withheld = None if decision.allowed else decision.reason[:500]
        denied = self._asker.why_not(self._topic)
        refusal = denied or self._stack.why_not(self._asker, self._head())
        # Who may neither read nor publish it learns nothing of who wants it.
        is_told = not request.clients_only and not (denied and self._withheld)
        members = tuple(self._members(is_to_all=to_all)) if is_told else ()
        clients, count = self._clients() if self._withheld is None else ((), 0)
        reason = refusal[:500] if refusal else None
        groups = tuple(self._groups()) if is_told and not to_all else ()
        units = tuple(self._units()) if is_told and not to_all else ()
        return Why(*told, reason, self._withheld, slot, members, clients, count, groups, units)

    def _head(self) -> Head:
        """Return the header of such an event, as far as it decides whether it is taken."""
        asker, topic = self._asker, self._topic
        numbers = (asker.publisher, asker.incarnation, 1, 0)
        return Head(
            self._request.link_class,
            0,
            0,
            0,
            0,
            NO_DUTY,
            *numbers,
            topic,
            realm=self._request.realm,
        )

    # ── members ───────────────────────────────────────────────────────────────────────────────

    def _members(self, *, is_to_all: bool) -> Iterator[WhyMember]:
        cluster, link_class = self._cluster, self._request.link_class
        own = 1 << cluster.slot if cluster.slot is not None else 0
        wanted = self._stack.node.mask_of(self._matter)
        for _, nearest in self._chosen():
            for slot in nearest:
                wanted |= 1 << slot
        wanted &= ~own
        split = self._stack.passing.plans.split(Duty(1, 0, wanted, own), link_class)
        unknown = self._stack.node.profiles.index.unknown
        for uid, row in sorted(self._stack.node.units.members.items()):
            bit, url = 1 << row.slot, row.member.peer.url
            if bit == own or is_to_all or not wanted & bit:
                yield WhyMember(row.slot, uid, url)
                continue
            asks, has_more = self._asks(uid)
            path, problem = self._path(row.slot, split)
            is_unknown = bool(unknown & bit)
            about = (True, is_unknown, asks, has_more)
            yield WhyMember(row.slot, uid, url, *about, path, problem)

    # ── other units ───────────────────────────────────────────────────────────────────────────

    def _units(self) -> Iterator[WhyUnit]:
        """Yield the other units, nearest first."""
        stack, link_class = self._stack, self._request.link_class
        address, statements = stack.node.units.address, stack.node.statements
        if address is None:
            return
        wanted = statements.mask_of(self._matter)
        for _, nearest in self._chosen():
            for node in nearest:
                wanted |= 1 << node if node >= UNIT_LIMIT else 0
        split = stack.passing.plans.split(Duty(1, 0, wanted, 1 << address.slot), link_class)
        for node, arc in sorted(stack.node.units.nodes.arcs.items()):
            level, name = level_of(node), self._unit_name(node)
            if not wanted >> node & 1:
                yield WhyUnit(name)
                continue
            held = statements.get((level, arc))
            asks, has_more = self._matching(held.asks if held is not None else ())
            uid = next((u for u, duty in split.onward if duty.destinations >> node & 1), None)
            member = stack.node.ring.linked.get(uid) if uid is not None else None
            yield WhyUnit(
                name,
                True,
                held is None,
                asks,
                has_more,
                uid,
                member is not None and stack.node.units.nodes.at(member.ring_id) == node,
                member.peer.url if member is not None else None,
                None if uid is not None else "no path leads there",
            )

    def _unit_name(self, node: int) -> str:
        address, level = self._stack.node.units.address, level_of(node)
        above = address.numbers[: LEVELS - 1 - level] if address is not None else ()
        return ".".join(map(str, (*above, node - UNIT_LIMIT * level)))

    # ── queue groups ──────────────────────────────────────────────────────────────────────────

    def _chosen(self) -> Iterator[tuple[Group, list[int]]]:
        """Yield the groups that want it, each with the brokers one of which would serve it."""
        choosing, link_class = self._stack.deliveries.sharing.choosing, self._request.link_class
        realm = self._request.realm
        for group in choosing.of(self._matter)[:MAX_GROUPS_TOLD]:
            yield group, choosing.candidates(link_class, group.key, below=realm)

    def _groups(self) -> Iterator[WhyGroup]:
        index, link_class = self._stack.node.profiles.index.groups, self._request.link_class
        for group, nearest in self._chosen():
            units = [self._unit_name(node) for node in nearest if node >= UNIT_LIMIT]
            nearest = [node for node in nearest if node < UNIT_LIMIT]
            others = set(bits(index.mask(link_class, group.key))).difference(nearest)
            shown = self._shown(group.filter, is_secret=link_class.is_secret)
            name = group.name if shown is not None else None
            yield WhyGroup(shown, name, tuple(nearest), tuple(sorted(others)), tuple(units))

    def _members_here(self) -> set[Session]:
        """Return the clients here that may get the event for a queue group."""
        link_class = self._request.link_class
        return {
            client
            for group in self._stack.deliveries.sharing.members.of(self._topic)
            for client, number in group
            if isinstance(client, Session) and client.asks[number].takes(link_class)
        }

    def _asks(self, uid: str) -> tuple[tuple[WhyAsk, ...], bool]:
        """Return the asks of a member that match, and whether there may be more."""
        return self._matching(self._stack.node.profiles.index.asks_of(uid))

    def _matching(self, asks: Iterable[Ask]) -> tuple[tuple[WhyAsk, ...], bool]:
        """Return those that match, and whether there may be more."""
        found: list[WhyAsk] = []
        link_class = self._request.link_class
        for ask in asks:
            if self._to_look_at == 0:
                return tuple(found), True
            self._to_look_at -= 1
            if ask.takes(link_class) and self._is_matched(ask):
                if len(found) == MAX_ASKS_TOLD:
                    return tuple(found), True
                found.append(self._shown_ask(ask))
        return tuple(found), False

    def _is_matched(self, ask: Ask) -> bool:
        return ask.is_everything or covers(ask.filter, self._request.topic)

    def _shown_ask(self, ask: Ask) -> WhyAsk:
        classes = ask.link_classes
        shown = self._shown(ask.filter, is_secret=classes == (SECURE,))
        group = ask.group if shown is not None else None
        return WhyAsk(shown, classes, group, ask.realm)

    def _path(self, slot: int, split: Split) -> tuple[tuple[WhyHop, ...], str | None]:
        """Return the way to a member, and what is wrong with it."""
        link_class = self._request.link_class
        if split.stuck >> slot & 1:
            if link_class.is_secret:
                return (), "no all-secure path leads there"
            return (), "no path leads there: the event would wait here for one, for some seconds"
        stack = self._stack
        first = next(uid for uid, duty in split.onward if duty.destinations >> slot & 1)
        steps = self._cluster.tables[link_class].path(slot)
        hops = [
            WhyHop(node, link_class if is_its_own else LinkClass.NORMAL)
            for node, is_its_own in steps
        ] or [WhyHop(slot, link_class)]  # it has just joined, and is linked
        problem = None
        if not stack.has_line(first, hops[0].link_class):
            problem = f"the link to broker {short(first)} is lost: the event would wait for it"
        return tuple(hops[:MAX_HOPS_TOLD]), problem

    # ── clients ───────────────────────────────────────────────────────────────────────────────

    def _clients(self) -> tuple[tuple[WhyClient, ...], int]:
        """Return the clients here that are to be told of, and how many would get the event."""
        targets = self._stack.deliveries.audience.of(self._matter)
        getting = {
            row.recipient.client: row.recipient
            for row in targets
            if isinstance(row.recipient.client, Session)
        }
        members = self._members_here()
        count = len(getting.keys() | members)
        subscriber = self._request.subscriber
        found: list[WhyClient] = []
        if subscriber is None:
            for client in dict.fromkeys((*getting, *sorted(members, key=lambda each: each.uid))):
                if len(found) == MAX_CLIENTS_TOLD:
                    break
                found.append(self._client(client, getting.get(client), client in members))
        else:
            for session in self._sessions:
                if session.uid == subscriber and len(found) < MAX_CLIENTS_TOLD:
                    known = getting.get(session), session in members
                    found.append(self._client(session, *known))
        return tuple(found), count

    def _client(self, session: Session, recipient: Recipient | None, is_member: bool) -> WhyClient:
        link_class, topic = self._request.link_class, self._request.topic
        # Names are asked for by events of their own, whatever the topic.
        every = [ask for ask in session.asks.values() if not is_name_filter(ask.filter)]
        every.sort(key=lambda ask: ask.group is not None)
        matching = [ask for ask in every if covers(ask.filter, topic)]
        of_class = [ask for ask in matching if ask.takes(link_class)]
        shown = of_class or matching or every
        problem = None
        if not every:
            problem = "it has no subscription"
        elif not matching:
            problem = "none of its filters matches"
        elif link_class.is_secret and not session.secure:
            problem = "the hop from its broker to it is not secure"
        elif not of_class:
            classes = sorted({str(each) for ask in matching for each in ask.link_classes})
            problem = f"what matches is for {' and '.join(classes)} events alone"
        elif recipient is None and is_member:
            problem = None
        elif recipient is not None and recipient.outlet is None and link_class.is_ordered:
            problem = "it is being sent first what it has missed; then it gets this"
        elif recipient is None:
            problem = "it has gone"
        filters = tuple(self._shown_filter(ask) for ask in shown[:MAX_FILTERS_TOLD])
        return WhyClient(session.uid, filters, len(shown) > MAX_FILTERS_TOLD, problem)

    def _shown_filter(self, ask: Ask) -> WhyFilter:
        shown = self._shown(ask.filter, is_secret=ask.only is SECURE, of_client=True)
        return WhyFilter(shown, ask.only, ask.group if shown is not None else None, ask.realm)

    def _shown(self, text: str, *, is_secret: bool, of_client: bool = False) -> str | None:
        """Return a filter, or None where it is not to be shown, or there is no room for it."""
        permissions = self._asker.admission.permissions
        if self._withheld is not None or (is_secret and not self._asker.secure):
            return None
        if of_client and permissions is not None and not permissions.subscribe(text).allowed:
            return None
        self._filter_bytes -= len(text.encode())
        return text if self._filter_bytes >= 0 else None
