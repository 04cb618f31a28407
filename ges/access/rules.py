"""Who may publish, subscribe and operate: the rules of one broker for its clients.

Rules come from a TOML file::

    [[allow]]
    subject = "token:line-1"
    publish = ["sensors/line-1/#"]
    subscribe = ["commands/line-1/#", "commands/all"]

    [[deny]]
    subject = "anyone"
    subscribe = ["sensors/+/secret"]

A broker denies all that no rule allows, and a denial wins over any permission, so the order of
rules does not matter. A topic may be published to if an allowing filter matches it. A subscription
is taken if one allowing filter covers its filter as a whole and no denying filter shares a topic
with it: what it can ever match is decided when it is made, so nothing needs to be checked as events
are delivered.

Replies to requests need no rule: a client that knows the address for one was asked, and may publish
to it unless a rule denies that (:mod:`ges.wire.replies`).

``brokers = ["10.1.0.0/16"]``, above all rules, lets only brokers at such addresses link to this
one: who could link as a broker would need no rule.

``operate = ["clients", "kick", "drain", "drill", "units"]`` in a rule is about what operators do:
see who is attached, cut one off, have the broker leave, break it for a drill, let a unit join
another one.

Subjects: ``anyone``; ``authenticated`` (by certificate or token); ``certificate``; ``token``;
``role:client`` and ``role:broker`` (a certificate's); ``uid:HEX32`` (a certificate's: a uid that is
only claimed counts for nothing); ``token:NAME``. The level ``{token}`` of a filter stands for the
name of the client's token, ``{uid}`` for the uid in its certificate; a client without it gets
nothing from such a filter. No other level of a filter has braces in it.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from ges.access.tokens import NAME_PATTERN
from ges.errors import AccessError, TopicError
from ges.matching.containment import covers, overlaps
from ges.wire.replies import is_reply_address
from ges.wire.topics import check_filter
from overlay.security.identity import Role

MAX_FILE_BYTES = 1024 * 1024
MAX_RULES = 1024
MAX_FILTERS = 1024  #: in one list of one rule

KEYS = ("name", "subject", "publish", "subscribe", "operate")
ANYONE, AUTHENTICATED, CERTIFICATE, TOKEN = "anyone", "authenticated", "certificate", "token"
TOKEN_LEVEL, UID_LEVEL = "{token}", "{uid}"

_SUBJECT = re.compile(
    rf"{ANYONE}|{AUTHENTICATED}|{CERTIFICATE}|{TOKEN}|role:(client|broker)|uid:[0-9a-f]{{32}}"
    rf"|token:{NAME_PATTERN}"
)
_SUBJECTS = (
    "write anyone, authenticated, certificate, token, role:client, role:broker, uid:HEX32 "
    "or token:NAME"
)
_HEADER = re.compile(r"\s*\[\[\s*(allow|deny)\s*\]\]")
_BRACE = re.compile(r"[{}]")  #: only in levels that are filled in: else it is a slip


class Operation(StrEnum):
    """What an operator does at a broker."""

    CLIENTS = "clients"
    KICK = "kick"
    DRAIN = "drain"
    DRILL = "drill"
    UNITS = "units"

    @property
    def in_words(self) -> str:
        """It as the subject of a sentence."""
        return _OPERATIONS_IN_WORDS[self]


_OPERATIONS_IN_WORDS = {
    Operation.CLIENTS: "listing clients",
    Operation.KICK: "cutting off a client",
    Operation.DRAIN: "draining the broker",
    Operation.DRILL: "breaking the ring for a drill",
    Operation.UNITS: "letting a unit join another one",
}


@dataclass(frozen=True, slots=True)
class Principal:
    """What a client has proven of itself."""

    uid: str | None = None  #: by a certificate
    role: Role | None = None  #: by the same
    token: str | None = None  #: name of its token

    @property
    def label(self) -> str:
        """Its name in messages and logs; also a subject for ``chordal access check``."""
        if self.token is not None:
            return f"token:{self.token}"
        return f"uid:{self.uid}" if self.uid is not None else ANYONE

    @property
    def subjects(self) -> frozenset[str]:
        """All subjects it is."""
        found = {ANYONE}
        if self.uid is not None:
            found |= {AUTHENTICATED, CERTIFICATE, f"uid:{self.uid}", f"role:{self.role}"}
        if self.token is not None:
            found |= {AUTHENTICATED, TOKEN, f"token:{self.token}"}
        return frozenset(found)


NOBODY = Principal()  #: a client that has proven nothing


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule as it stands in the file."""

    title: str  #: what messages call it
    allows: bool
    subjects: tuple[str, ...]
    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    operate: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.title


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether something is allowed; ``rule`` decided, or none speaks of it."""

    allowed: bool
    rule: Rule | None
    reason: str


class Permissions:
    """What one principal may do, by the rules of one file."""

    __slots__ = ("_operate", "_principal", "_publish", "_subscribe")

    def __init__(self, rules: tuple[Rule, ...], principal: Principal) -> None:
        self._principal = principal
        mine = [rule for rule in rules if principal.subjects.intersection(rule.subjects)]
        mine.sort(key=lambda rule: rule.allows)  # denials first: they win
        self._publish = [(rule, _filled(rule.publish, principal)) for rule in mine]
        self._subscribe = [(rule, _filled(rule.subscribe, principal)) for rule in mine]
        self._operate = [(rule, rule.operate) for rule in mine]

    def publish(self, topic: str) -> Decision:
        """Decide about an event to a checked ``topic``; a reply needs no rule that allows it."""
        what = f"publishing to {topic!r}"
        for rule, filters in self._publish:
            if any(covers(text, topic) for text in filters):
                return self._decided(rule, what)
        return self._undecided(what, is_reply=is_reply_address(topic))

    def subscribe(self, text: str) -> Decision:
        """Decide about a subscription with the checked filter ``text``.

        One for replies needs no rule that allows it; whose they are is looked at elsewhere
        (:func:`ges.wire.replies.why_not_to_be_read`).
        """
        what = f"subscribing to {text!r}"
        for rule, filters in self._subscribe:
            touches = covers if rule.allows else overlaps
            if any(touches(other, text) for other in filters):
                return self._decided(rule, what)
        return self._undecided(what, is_reply=is_reply_address(text))

    def operate(self, operation: Operation) -> Decision:
        """Decide about what an operator does."""
        for rule, operations in self._operate:
            if operation in operations:
                return self._decided(rule, operation.in_words)
        return self._undecided(operation.in_words)

    def _decided(self, rule: Rule, what: str) -> Decision:
        verb = "allowed" if rule.allows else "denied"
        return Decision(rule.allows, rule, f"{what} is {verb} to {self._principal.label} by {rule}")

    def _undecided(self, what: str, *, is_reply: bool = False) -> Decision:
        if is_reply:
            return Decision(True, None, f"{what} is allowed: whoever was asked may answer")
        reason = f"{what} is denied to {self._principal.label}: no rule allows it"
        return Decision(False, None, reason)


def is_denial(reason: str) -> bool:
    """Say whether a client was refused something as it may not do it."""
    return " is denied to " in reason


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The rules of one file."""

    rules: tuple[Rule, ...]
    brokers: tuple[IPv4Network | IPv6Network, ...] | None = None  #: None: wherever they are

    def permissions(self, principal: Principal) -> Permissions:
        """Return what ``principal`` may do."""
        return Permissions(self.rules, principal)

    def admits_broker(self, host: str) -> bool:
        """Say whether a broker at that IP address may link to this one."""
        if self.brokers is None:
            return True
        address = ip_address(host)
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self.brokers)


def parse_access(text: str, source: str) -> AccessRules:
    """Read a rule file; ``source`` names it in errors.

    Raises:
        AccessError: it is no TOML, has unknown keys or subjects, filters that are none, a rule that
            says nothing, or too much of anything; the text names file, rule and mend.
    """
    if len(text.encode()) > MAX_FILE_BYTES:
        raise AccessError(f"{source}: more than {MAX_FILE_BYTES} bytes")
    try:
        document = tomllib.loads(text.removeprefix("\ufeff"))
    except ValueError as error:  # a number of too many digits is no TOMLDecodeError
        raise AccessError(f"{source}: no TOML: {error}") from error
    except RecursionError:
        raise AccessError(f"{source}: lists within lists, too deep to be read") from None
    for key in document:
        if key not in ("allow", "deny", "brokers"):
            raise AccessError(
                f"{source}: unknown key {key!r}{_line_of(key, text)}; "
                "write [[allow]], [[deny]] or brokers = [...]"
            )
    lines = [
        (number, match[1])
        for number, line in enumerate(text.splitlines(), start=1)
        if (match := _HEADER.match(line))
    ]
    rules: list[Rule] = []
    for kind in ("allow", "deny"):
        tables = document.get(kind, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise AccessError(
                f"{source}: {kind}{_line_of(kind, text)} is no list of rules; "
                f"write [[{kind}]] above each"
            )
        places = [number for number, word in lines if word == kind]
        for at, table in enumerate(tables):
            line = f" on line {places[at]}" if len(places) == len(tables) else f" {at + 1}"
            rules.append(_rule(table, kind, f"the {kind} rule{line}", source))
    if len(rules) > MAX_RULES:
        raise AccessError(f"{source}: {len(rules)} rules, {MAX_RULES} are allowed")
    return AccessRules(tuple(rules), _networks(document, source, _line_of("brokers", text)))


def _line_of(key: str, text: str) -> str:
    """Say on which line a key of the whole file, or its header, stands; nothing if it is quoted."""
    wanted = re.compile(rf"\s*(\[\[?\s*)?{re.escape(key)}\s*[.=\]]")
    lines = enumerate(text.splitlines(), start=1)
    return next((f" on line {number}" for number, line in lines if wanted.match(line)), "")


def _networks(
    document: dict[str, object], source: str, line: str
) -> tuple[IPv4Network | IPv6Network, ...] | None:
    if "brokers" not in document:
        return None
    found = []
    for text in _texts(document, "brokers", source):
        try:
            found.append(ip_network(text))
        except ValueError as error:
            mend = "write addresses or networks, such as 10.1.0.0/16"
            raise AccessError(f"{source}: brokers{line}: {error}; {mend}") from error
    return tuple(found)


def parse_principal(text: str) -> Principal:
    """Return the principal that a subject such as ``token:line-1`` describes.

    Raises:
        AccessError: it is no subject, or one that does not describe a client.
    """
    kind, _, value = text.partition(":")
    if text == ANYONE:
        return NOBODY
    if _SUBJECT.fullmatch(text) and value:
        if kind == "token":
            return Principal(token=value)
        if kind == "uid":
            return Principal(uid=value, role=Role.CLIENT)
        return Principal(uid="0" * 32, role=Role(value))
    raise AccessError(
        f"{text!r} describes no client; write anyone, token:NAME, uid:HEX32 or role:client"
    )


def _rule(table: dict[str, object], kind: str, title: str, source: str) -> Rule:
    where = f"{source}: {title}"
    for key in table:
        if key not in KEYS:
            close = get_close_matches(key, KEYS, 1)
            mend = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(KEYS)}"
            if key == "brokers":
                mend = "write it above all rules"
            raise AccessError(f"{where}: unknown key {key!r}; {mend}")
    name = table.get("name")
    if name is not None:
        if not isinstance(name, str) or not 0 < len(name) <= 100 or not name.isprintable():
            raise AccessError(f"{where}: name is 1 to 100 printable characters")
        title = f"{title} ({name})"
    subjects = _texts(table, "subject", where)
    if not subjects:
        raise AccessError(f"{where}: no subject; {_SUBJECTS}")
    for subject in subjects:
        if not _SUBJECT.fullmatch(subject):
            raise AccessError(f"{where}: subject {subject!r} is none; {_SUBJECTS}")
    publish, subscribe = _filters(table, "publish", where), _filters(table, "subscribe", where)
    operate = _texts(table, "operate", where)
    for operation in operate:
        if operation not in list(Operation):
            known = ", ".join(Operation)
            raise AccessError(f"{where}: operate: {operation!r} is not known; write {known}")
    if not publish and not subscribe and not operate:
        raise AccessError(
            f"{where}: says nothing; give filters with publish or subscribe, or operate = [...]"
        )
    return Rule(title, kind == "allow", subjects, publish, subscribe, operate)


def _filters(table: dict[str, object], key: str, where: str) -> tuple[str, ...]:
    found = _texts(table, key, where)
    for text in found:
        try:
            check_filter(text)
        except TopicError as error:
            raise AccessError(f"{where}: {key}: {error}") from error
        for level in text.split("/"):
            if _BRACE.search(level) and level not in (TOKEN_LEVEL, UID_LEVEL):
                raise AccessError(
                    f"{where}: {key}: {level} in {text!r} is not known; "
                    f"write {TOKEN_LEVEL} or {UID_LEVEL} as a whole level"
                )
    return found


def _texts(table: dict[str, object], key: str, where: str) -> tuple[str, ...]:
    """Return what stands under ``key``: one text, or a list of them."""
    value = table.get(key, [])
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise AccessError(f'{where}: {key} is no list of texts; write {key} = ["..."]')
    if len(found) > MAX_FILTERS:
        raise AccessError(f"{where}: {key} has {len(found)} entries, {MAX_FILTERS} are allowed")
    return tuple(found)


def _filled(filters: tuple[str, ...], principal: Principal) -> tuple[str, ...]:
    """Put a principal's own names in; filters that want one it has not are left out."""
    values = {TOKEN_LEVEL: principal.token, UID_LEVEL: principal.uid}
    found = []
    for text in filters:
        levels = [values.get(level, level) for level in text.split("/")]
        if None not in levels:
            found.append("/".join(level for level in levels if level is not None))
    return tuple(found)
