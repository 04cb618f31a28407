"""``chordal why`` against real brokers: whom an event is for, by what way, and why it is not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Broker, Fleet, whole
from benchmarks.stage.waiting import eventually

pytestmark = pytest.mark.live

RULES = """
[[allow]]
subject = "anyone"
publish = ["open/#"]
subscribe = ["open/#"]

[[allow]]
subject = "token:insider"
subscribe = ["#"]
"""


def asked(broker: Broker, *arguments: str, url: str = "") -> tuple[int, dict[str, Any]]:
    """What the command says, for machines, and its exit code."""
    done = chordal_here("why", *arguments, "--json", "--broker", url or broker.url)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, found


def destinations(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The brokers that an event goes to, beside the one where it is published."""
    return {each["uid"]: each for each in found["brokers"][1:]}


def known(broker: Broker, topic: str, *uids: str) -> None:
    """Wait until a broker knows that just these brokers want a topic."""
    eventually(lambda: destinations(asked(broker, topic)[1]).keys() == set(uids))


def test_it_says_whom_an_event_is_for_because_of_what_and_who_gets_it(brokers: Fleet) -> None:
    first, second, third = brokers.ring_of(3)
    brokers.subscriber("why/+", second.url)
    brokers.subscriber("quick/#", second.url, "--class", "express")
    known(first, "why/a", second.uid)

    code, found = asked(first, "why/a")
    assert code == 0
    assert (found["broker"], found["topic"], found["class"]) == (first.uid, "why/a", "normal")
    assert (found["refusal"], found["to_all"], found["not_for"]) == (None, False, [third.uid])
    here, there = found["brokers"]
    assert (here["uid"], here["clients"]) == (first.uid, [])
    assert not there["unknown"]
    assert there["asks"] == [{"filter": "why/+", "queue": None, "classes": ["normal", "express"]}]
    assert there["hops"][-1] == {"uid": second.uid, "class": "normal", "cipher": None}
    [client] = there["clients"]
    assert client["filters"] == [{"filter": "why/+", "queue": None, "class": None}]
    assert client["problem"] is None

    # The same for people, and where nobody wants it.
    told = chordal_here("why", "why/a", "--broker", first.url)
    assert f"broker {second.uid[:8]} ({second.url}): it wants 'why/+'" in told.stdout
    assert re.search(rf"by {first.uid[:8]} .*-> {second.uid[:8]} \(normal\)", told.stdout)
    assert f"client {client['uid']} has 'why/+'" in told.stdout
    assert f"not for 1 broker, where nobody wants it: {third.uid[:8]}" in told.stdout
    assert asked(first, "why/a/b")[1]["brokers"][1:] == []

    # One client: whether it gets the event, and why not.
    mine = ("--subscriber", client["uid"])
    told = chordal_here("why", "why/a", *mine, "--broker", first.url)
    assert told.returncode == 0
    assert "it would get the event\n" in told.stdout
    told = chordal_here("why", "why/a/b", *mine, "--broker", third.url)
    assert told.returncode == 1
    assert "it would not get the event now: none of its filters matches" in told.stdout
    told = chordal_here("why", "why/a", "--subscriber", "0" * 32, "--broker", first.url)
    assert told.returncode == 1
    assert f"client {'0' * 32} is not attached to any broker" in told.stdout

    # Only of another class.
    assert destinations(asked(first, "quick/a")[1]) == {}
    code, found = asked(first, "quick/a", "--class", "express")
    assert code == 0
    [quick] = destinations(found)[second.uid]["clients"]
    told = chordal_here("why", "quick/a", "--subscriber", quick["uid"], "--broker", first.url)
    assert told.returncode == 1
    assert "what matches is for express events alone" in told.stdout


def test_what_is_wrong_is_one_line(brokers: Fleet) -> None:
    done = chordal_here("why", "a/#")
    assert done.returncode == 2
    assert done.stderr.startswith("chordal: error: ")
    done = chordal_here("why", "a", "--subscriber", "me")
    assert done.returncode == 2
    assert "is not a uid" in done.stderr


def test_filters_and_clients_are_shown_only_to_who_may_subscribe(
    brokers: Fleet, tmp_path: Path
) -> None:
    rules, book, token = tmp_path / "rules.toml", tmp_path / "book.json", tmp_path / "token"
    rules.write_text(RULES)
    issued = chordal_here("token", "issue", str(book), "insider", "--out", str(token))
    assert issued.returncode == 0, issued.stderr
    first = brokers.broker("--access", str(rules), "--tokens", str(book))
    mine = ("--token-file", str(token))
    brokers.subscriber("hidden/secret-filter/#", first.url, *mine)
    brokers.subscriber("open/#", first.url)

    code, found = asked(first, "hidden/secret-filter/a")
    assert code == 1
    assert "publishing to 'hidden/secret-filter/a' is denied to anyone" in found["refusal"]
    assert "subscribing to 'hidden/secret-filter/a' is denied to anyone" in found["withheld"]
    [here] = found["brokers"]
    assert (here["clients"], here["client_count"]) == ([], None)
    code, found = asked(first, "open/a")
    assert (code, found["withheld"]) == (0, None)
    assert len(found["brokers"][0]["clients"]) == 1
    found = asked(first, "hidden/secret-filter/a", *mine)[1]
    assert found["withheld"] is None
    [client] = found["brokers"][0]["clients"]
    assert client["filters"] == [{"filter": "hidden/secret-filter/#", "queue": None, "class": None}]


def test_secure_events_and_those_who_may_not_see_their_filters(
    brokers: Fleet, tmp_path: Path
) -> None:
    authority = str(tmp_path / "authority")
    assert chordal_here("identity", "init", authority).returncode == 0
    folders = {name: str(tmp_path / name) for name in ("one", "two", "me")}
    for name, folder in folders.items():
        role = "--client" if name == "me" else "--broker"
        assert chordal_here("identity", "issue", authority, folder, role).returncode == 0
    first = brokers.broker("--identity", folders["one"])
    second = brokers.broker("--identity", folders["two"], "--join", first.url)
    plain = brokers.broker("--join", first.url)
    whole(plain.url, 3)
    me = ("--identity", folders["me"])
    reader = brokers.subscriber(
        "vault/#", second.ready["secure_url"], "--class", "secure", "--json", *me
    )
    brokers.subscriber("vault/#", plain.url)
    secure = ("--class", "secure", *me)
    url = str(first.ready["secure_url"])
    eventually(lambda: asked(first, "vault/a", *secure, url=url)[0] == 0)

    _, found = asked(first, "vault/a", *secure, url=url)
    there = destinations(found)
    assert there.keys() == {second.uid}
    [hop] = there[second.uid]["hops"]
    assert (hop["uid"], hop["class"]) == (second.uid, "secure")
    assert hop["cipher"].startswith("TLSv1.3 ")
    assert there[second.uid]["asks"] == [
        {"filter": "vault/#", "queue": None, "classes": ["secure"]}
    ]

    # Over a plain hop the event would be refused, and such a filter is not shown.
    code, found = asked(first, "vault/a", "--class", "secure")
    assert code == 1
    assert "is not secure" in found["refusal"]
    there = destinations(found)
    assert there[second.uid]["asks"] == [{"filter": None, "queue": None, "classes": ["secure"]}]
    assert [f["filter"] for c in there[second.uid]["clients"] for f in c["filters"]] == [None]

    # Nor is the topic of a secure event, or whom it was for.
    assert chordal_here("pub", "vault/a", "x", *secure, "--broker", url).returncode == 0
    eventually(lambda: reader.out.endswith("\n"))
    event = json.loads(reader.out)
    name = f"{event['publisher']}:{event['sequence']}:secure"

    def whole_answer() -> tuple[int, Any] | None:
        """Nobody waits for a broker that a busy machine holds up."""
        code, found = asked(first, name, *me, url=url)
        is_whole = found["published"] and any(each["is_for"] for each in found["brokers"])
        return (code, found) if is_whole else None

    answer = eventually(whole_answer)
    assert answer is not None
    code, found = answer
    assert code == 1  # the plain broker cannot be asked over TLS
    assert [source["topic"] for source in found["published"]] == ["vault/a"]
    assert [each["uid"] for each in found["brokers"] if each["is_for"]] == [second.uid]
    code, found = asked(first, name)
    assert code == 1
    [source] = found["published"]
    assert (source["broker"], source["topic"]) == (first.uid, None)
    assert "is not secure" in source["withheld"]
    assert not any(each["is_for"] for each in found["brokers"])


def test_what_became_of_one_event(brokers: Fleet) -> None:
    first, second, third = brokers.ring_of(3)
    reader = brokers.subscriber("trail/#", second.url, "--json", "--count", "1")
    known(first, "trail/a", second.uid)
    chordal_here("pub", "trail/a", "x", "--broker", first.url)
    assert reader.ended() == 0
    event = json.loads(reader.out)
    name = f"{event['publisher']}:{event['sequence']}"

    code, found = asked(third, name)
    assert code == 0
    [source] = found["published"]
    assert (source["broker"], source["topic"], source["to_all"]) == (first.uid, "trail/a", False)
    states = {each["uid"]: (each["is_for"], each["state"]) for each in found["brokers"]}
    assert states[second.uid] == (True, "done")
    assert states[third.uid] == (False, "never")
    assert not states[first.uid][0]
    told = chordal_here("why", name, "--broker", third.url)
    assert f"published at broker {first.uid[:8]} ({first.url})" in told.stdout
    assert f"for broker {second.uid[:8]} ({second.url}): it is done" in told.stdout

    told = chordal_here("why", f"{event['publisher']}:999", "--broker", third.url)
    assert told.returncode == 1
    assert "none of 3 brokers has it in its log" in told.stdout
    told = chordal_here("why", f"{name}:express", "--broker", third.url)
    assert told.returncode == 2
    assert "brokers keep nothing of express events" in told.stderr
