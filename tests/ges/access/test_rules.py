"""Rules of access: what they allow, and what a wrong file is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ges.access.rules import NOBODY, AccessRules, Principal, parse_access, parse_principal
from ges.errors import AccessError
from ges.matching.filter_tree import FilterTree
from overlay.security.identity import Role

RULES = """
[[allow]]
name = "line 1"
subject = "token:line-1"
publish = ["sensors/line-1/#"]
subscribe = ["commands/line-1/+", "commands/all"]

[[allow]]
subject = ["role:client", "authenticated"]
subscribe = "sensors/#"

[[deny]]
subject = "anyone"
subscribe = ["sensors/+/secret"]
publish = ["sensors/line-1/secret"]

[[allow]]
subject = ["token", "certificate"]
publish = ["own/{token}/#", "own/{uid}/#"]
"""
LINE = Principal(token="line-1")
CERTIFIED = Principal(uid="c" * 32, role=Role.CLIENT)


@pytest.fixture
def rules() -> AccessRules:
    return parse_access(RULES, "rules.toml")


@pytest.mark.parametrize(
    ("principal", "topic", "allowed"),
    [
        (LINE, "sensors/line-1/7", True),
        (LINE, "sensors/line-1", True),
        (LINE, "sensors/line-2/7", False),
        (LINE, "sensors/line-1/secret", False),
        (NOBODY, "sensors/line-1/7", False),
        (Principal(token="line-2"), "sensors/line-1/7", False),
        (LINE, "own/line-1/x", True),
        (LINE, "own/line-2/x", False),
        (LINE, "own/{token}/x", False),
        (CERTIFIED, f"own/{'c' * 32}/x", True),
        (CERTIFIED, f"own/{'d' * 32}/x", False),
        (CERTIFIED, "sensors/line-1/7", False),
    ],
)
def test_publishing(rules: AccessRules, principal: Principal, topic: str, allowed: bool) -> None:
    decision = rules.permissions(principal).publish(topic)
    assert decision.allowed is allowed, decision.reason


@pytest.mark.parametrize(
    ("principal", "text", "allowed"),
    [
        (LINE, "commands/line-1/stop", True),
        (LINE, "commands/line-1/+", True),
        (LINE, "commands/all", True),
        (LINE, "commands/+", False),
        (LINE, "commands/line-1/#", False),
        (LINE, "#", False),
        (LINE, "sensors/line-1/temperature", True),
        (LINE, "sensors/line-1/+", False),
        (LINE, "sensors/#", False),
        (CERTIFIED, "sensors/line-1", True),
        (NOBODY, "sensors/line-1", False),
    ],
)
def test_subscribing(rules: AccessRules, principal: Principal, text: str, allowed: bool) -> None:
    decision = rules.permissions(principal).subscribe(text)
    assert decision.allowed is allowed, decision.reason


def test_decisions_name_topic_subject_and_rule(rules: AccessRules) -> None:
    permissions = rules.permissions(LINE)
    assert permissions.publish("sensors/line-1/7").reason == (
        "publishing to 'sensors/line-1/7' is allowed to token:line-1 "
        "by the allow rule on line 2 (line 1)"
    )
    assert permissions.subscribe("sensors/#").reason == (
        "subscribing to 'sensors/#' is denied to token:line-1 by the deny rule on line 12"
    )
    assert permissions.publish("x").reason == (
        "publishing to 'x' is denied to token:line-1: no rule allows it"
    )
    assert "denied to anyone" in rules.permissions(NOBODY).publish("x").reason


def test_a_file_without_rules_denies_everything() -> None:
    permissions = parse_access("", "rules.toml").permissions(CERTIFIED)
    assert not permissions.publish("a").allowed
    assert not permissions.subscribe("a").allowed


def test_a_rule_for_one_thing_says_nothing_of_the_other() -> None:
    text = '[[allow]]\nsubject = "anyone"\npublish = ["#"]'
    permissions = parse_access(text, "rules.toml").permissions(NOBODY)
    assert permissions.publish("a").allowed
    assert not permissions.publish("$system/a").allowed, "wildcards leave the system's topics out"
    assert not permissions.subscribe("a").allowed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[allow]", "no TOML"),
        ("allowed = 1", "unknown key 'allowed' on line 1; write [[allow]], [[deny]] or brokers"),
        ("\n[[alow]]\nsubject = 'anyone'", "unknown key 'alow' on line 2; write [[allow]]"),
        ("\n[allow]\nsubject = 'anyone'", "allow on line 2 is no list of rules"),
        ("\n\nbrokers = ['10.1.0.0/33']", "brokers on line 3: '10.1.0.0/33'"),
        ("brokers = '10.0.0.1/8'", "10.0.0.1/8 has host bits set; write addresses or networks"),
        ("brokers = ['here']", "brokers on line 1: 'here' does not appear to be"),
        ("[[deny]]\nsubject = 'anyone'\npublish = ['a']\nbrokers = []", "above all rules"),
        ("allow = 1", "write [[allow]] above each"),
        ("[allow]\nsubject = 'anyone'", "write [[allow]] above each"),
        ("[[allow]]\npublish = ['a']", "the allow rule on line 1: no subject"),
        ("[[allow]]\nsubject = 'anyone'", "says nothing"),
        ("[[allow]]\nsubject = 'everyone'\npublish = ['a']", "subject 'everyone' is none"),
        ("[[allow]]\nsubject = 'uid:12'\npublish = ['a']", "subject 'uid:12' is none"),
        ("\n\n[[deny]]\nsubject = 'anyone'\npublsh = ['a']", "line 3: unknown key 'publsh'; did"),
        ("[[deny]]\nsubject = 'anyone'\npublish = 7", "publish is no list of texts"),
        ("[[deny]]\nsubject = 'anyone'\npublish = ['a/#/b']", "'#' can only be the last"),
        ("[[deny]]\nsubject = 'anyone'\nsubscribe = ['a/*']", "write '+' instead of '*'"),
        ("[[deny]]\nsubject = 'anyone'\nsubscribe = ['a/{name}']", "{name} in 'a/{name}' is not"),
        (
            "[[deny]]\nsubject = 'anyone'\npublish = ['a/{token}x']",
            "the deny rule on line 1: publish: {token}x in 'a/{token}x' is not known",
        ),
        ("[[deny]]\nsubject = 'anyone'\npublish = ['a/x{uid}/b']", "x{uid} in 'a/x{uid}/b' is"),
        ("[[deny]]\nsubject = 'anyone'\npublish = ['{token']", "{token in '{token' is not known"),
        ("[[deny]]\nsubject = 'anyone'\npublish = ['a/b}']", "b} in 'a/b}' is not known"),
        ("x = " + "[" * 50_000, "lists within lists, too deep"),
        ("x = " + "{a=" * 50_000, "too deep to be read"),
        ("x = 1" + "0" * 5000, "no TOML"),
        ("[[deny]]\nname = 7\nsubject = 'anyone'\nsubscribe = ['a']", "name is 1 to 100"),
        ("[[allow]]\nsubject = 'anyone'\npublish = ['a']\n" * 1025, "1025 rules, 1024"),
        (
            "[[allow]]\nsubject = 'anyone'\npublish = " + str(["a"] * 1025),
            "publish has 1025 entries, 1024",
        ),
        ("#" * 2_000_000, "more than"),
    ],
)
def test_a_wrong_file_is_told_what_is_wrong_and_where(text: str, words: str) -> None:
    with pytest.raises(AccessError) as caught:
        parse_access(text, "rules.toml")
    assert words in str(caught.value)
    assert str(caught.value).startswith("rules.toml: ")


@pytest.mark.parametrize("text", ["x", "token:", "token", "authenticated", "uid:zz", "role:king"])
def test_what_describes_no_client(text: str) -> None:
    with pytest.raises(AccessError, match="describes no client"):
        parse_principal(text)


def test_subjects_describe_clients() -> None:
    assert parse_principal("anyone") == NOBODY
    assert parse_principal("token:line-1") == LINE
    assert parse_principal(CERTIFIED.label) == CERTIFIED
    assert "role:broker" in parse_principal("role:broker").subjects


@pytest.mark.parametrize(
    ("source", "admitted"),
    [
        ("", ["10.1.2.3", "192.0.2.1", "::1"]),
        ("brokers = []", []),
        ("brokers = ['10.1.0.0/16', '::1']", ["10.1.2.3", "::ffff:10.1.2.3", "::1"]),
        ("brokers = '192.0.2.1'", ["192.0.2.1"]),
    ],
)
def test_where_brokers_may_be(source: str, admitted: list[str]) -> None:
    rules = parse_access(source, "rules.toml")
    hosts = ["10.1.2.3", "::ffff:10.1.2.3", "192.0.2.1", "::1", "fe80::1%eth0"]
    assert {host for host in hosts if rules.admits_broker(host)} >= set(admitted)
    if source:
        assert [host for host in hosts if rules.admits_broker(host)] == sorted(
            admitted, key=hosts.index
        )


# What a subscription may match is decided as it is made

level = st.sampled_from(["a", "b", "+", "$s"])
text = st.builds(
    lambda names, rest: "/".join([*names, *rest]),
    st.lists(level, min_size=1, max_size=3),
    st.sampled_from([[], ["#"]]),
)
topics = st.lists(st.sampled_from(["a", "b", "c", "$s"]), min_size=1, max_size=4).map("/".join)


@given(
    allow=st.lists(text, min_size=1, max_size=4),
    deny=st.lists(text, max_size=3),
    wanted=text,
    topic=topics,
)
def test_nothing_that_is_not_allowed_can_reach_a_subscription(
    allow: list[str], deny: list[str], wanted: str, topic: str
) -> None:
    source = f'[[allow]]\nsubject = "anyone"\nsubscribe = {allow}\n'
    if deny:
        source += f'[[deny]]\nsubject = "anyone"\nsubscribe = {deny}\n'
    decision = parse_access(source, "rules").permissions(NOBODY).subscribe(wanted)
    if decision.allowed and _matches(wanted, topic):
        assert any(_matches(other, topic) for other in allow)
        assert not any(_matches(other, topic) for other in deny)


def _matches(filter_text: str, topic: str) -> bool:
    tree: FilterTree[int] = FilterTree()
    tree.add(filter_text, 1)
    return bool(tree.matches(topic))
