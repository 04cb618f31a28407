"""Queue groups, requests and replies with real brokers and commands."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from benchmarks.stage.in_process import chordal_here
from benchmarks.stage.processes import Fleet, whole
from benchmarks.stage.waiting import eventually

pytestmark = pytest.mark.live


def test_each_event_goes_to_one_member_and_others_take_over_when_its_broker_dies(
    brokers: Fleet,
) -> None:
    ring = brokers.ring_of(3)
    publish_at, dies = ring[0].url, ring[1]
    members = [
        brokers.subscriber("work/+", url, "--queue", "workers")
        for url in (dies.url, dies.url, ring[2].url)
    ]
    plain = brokers.subscriber("work/#", publish_at)

    def publish(first: int, count: int) -> None:
        lines = "".join(f"{number}\n" for number in range(first, first + count))
        done = chordal_here("pub", "work/1", "-", "--lines", "--broker", publish_at, given=lines)
        assert done.returncode == 0, done.stderr

    def got() -> list[int]:
        lines = [line for member in members for line in member.out.splitlines()]
        return sorted(int(line.split()[1]) for line in lines)

    publish(0, 300)
    eventually(lambda: len(got()) >= 300)
    assert got() == list(range(300))
    for member in members:
        numbers = [int(line.split()[1]) for line in member.out.splitlines()]
        assert numbers == sorted(numbers), "in order, at each member"
    dies.signal(signal.SIGKILL)
    whole(publish_at, 2)
    eventually(lambda: all("attached to" in member.err for member in members[:2]))
    publish(300, 300)
    eventually(lambda: len([number for number in got() if number >= 300]) >= 300)
    assert got() == list(range(600))
    eventually(lambda: len(plain.out.splitlines()) == 600)


def test_why_names_the_queue(brokers: Fleet) -> None:
    ring = brokers.ring_of(2)
    brokers.subscriber("work/+", ring[1].url, "--queue", "workers")
    done = chordal_here("why", "work/1", "--broker", ring[0].url)
    assert done.returncode == 0, done.stdout
    assert "queue workers on 'work/+': one member gets it, at the nearest broker" in done.stdout
    assert "has 'work/+' in queue workers" in done.stdout
    found = json.loads(chordal_here("why", "work/1", "--broker", ring[0].url, "--json").stdout)
    (queue,) = found["queues"]
    assert (queue["queue"], queue["filter"], len(queue["nearest"])) == ("workers", "work/+", 1)


def test_a_request_gets_what_a_command_prints(brokers: Fleet) -> None:
    ring = brokers.ring_of(2)
    code = (
        "import os, sys; "
        "print(os.environ['CHORDAL_TOPIC'], sum(map(int, sys.stdin.read().split())))"
    )
    command = f'{sys.executable} -c "{code}"'
    arguments = ("--command", command, "--queue", "adders", "--count", "3", "--jobs", "2")
    replier = brokers.run("reply", "service/+", *arguments, "--broker", ring[1].url)
    eventually(lambda: "answering on service/+ in queue adders" in replier.err)
    for number in range(2):
        done = chordal_here("request", "service/add", f"1 {number}", "--broker", ring[0].url)
        assert (done.returncode, done.stdout) == (0, f"service/add {1 + number}\n"), done.stderr
    done = chordal_here("request", "service/add", "x", "--timeout", "2", "--broker", ring[0].url)
    assert done.returncode == 1
    assert "no reply on service/add within 2 s [request-timed-out]" in done.stderr
    assert replier.ended() == 1
    assert "no reply to a request on service/add: the command failed with 1" in replier.err
    assert "1 request got no reply [responder-failed]" in replier.err


def test_a_fixed_reply_and_json(brokers: Fleet) -> None:
    url = brokers.broker().url
    replier = brokers.run("reply", "ping", "--payload", "pong", "--count", "1", "--broker", url)
    eventually(lambda: "answering on ping" in replier.err)
    done = chordal_here("request", "ping", "-", "--json", "--broker", url, given="x")
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert row["payload"] == "pong"
    assert replier.ended() == 0
    done = chordal_here("request", "ping", "--broker", url, "--timeout", "60")
    assert done.returncode == 1
    assert "nobody answers requests on ping: no subscription matches [no-responders]" in done.stderr


def test_a_reply_that_a_rule_denies_is_told_of_its_request(brokers: Fleet, tmp_path: Path) -> None:
    rules = tmp_path / "access.toml"
    allow = '[[allow]]\nsubject = "anyone"\npublish = ["ping"]\nsubscribe = ["ping"]\n'
    deny = '[[deny]]\nsubject = "anyone"\npublish = ["$reply/#"]\n'
    rules.write_text(allow)
    broker = brokers.broker("--access", str(rules))
    arguments = ("--payload", "pong", "--count", "3", "--broker", broker.url)
    replier = brokers.run("reply", "ping", *arguments)
    eventually(lambda: "answering on ping" in replier.err)
    ask = ("request", "ping", "--timeout", "2", "--broker", broker.url)
    done = chordal_here(*ask)
    assert (done.returncode, done.stdout) == (0, "pong\n"), "replies need no rule"
    rules.write_text(allow + deny)
    broker.signal(signal.SIGHUP)
    eventually(lambda: "access rules read again" in broker.err)
    for _ in range(2):
        assert "[request-timed-out]" in chordal_here(*ask).stderr
    assert replier.ended() == 1
    assert replier.err.count("no reply to a request on ping: publishing to '$reply/") == 2
    assert "2 requests got no reply [responder-failed]" in replier.err


def test_what_makes_no_sense_is_said_before_a_broker_is_looked_for() -> None:
    for arguments, text in (
        (("reply", "t"), "one of --payload and --command"),
        (("reply", "t", "--command", "no-such-program x"), "no program 'no-such-program'"),
        (("reply", "t", "--command", "'"), "No closing quotation"),
        (("reply", "t", "--payload", "x", "--queue", ""), "1 to 64 characters"),
        (("request", "t/#"), "wildcard"),
        (("sub", "t", "--queue", "x" * 65), "1 to 64 characters"),
        (("bench", "request", "--responders", "0"), "--topic"),
    ):
        done = chordal_here(*arguments)
        assert done.returncode == 2, done.stderr
        assert text in done.stderr


def test_requests_are_measured(brokers: Fleet) -> None:
    here, there = brokers.ring_of(2)
    done = chordal_here(
        *("bench", "request", "--broker", here.url, "--reply-broker", there.url, "--json"),
        *("--count", "300", "--clients", "3", "--responders", "2", "--at-once", "4"),
        *("--size", "0,64", "--class", "normal,express"),
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [row["url"] for row in document["conditions"]["brokers"]] == [here.url, there.url]
    assert len(document["runs"]) == 4
    for run in document["runs"]:
        figures = run["figures"]
        assert (figures["requests"], figures["replies"], figures["answered"]) == (300, 300, 300)
        assert (figures["unanswered"], figures["nobody"]) == (0, 0)
        trip = figures["round_trip"]
        assert 0 < trip["p50_ms"] <= trip["p99_ms"] <= trip["max_ms"]


def test_requests_at_a_rate_and_those_that_nobody_answers(brokers: Fleet) -> None:
    url = brokers.broker().url
    arguments = ("--rate", "200", "--count", "100", "--broker", url)
    done = chordal_here("bench", "request", *arguments)
    assert done.returncode == 0, done.stderr
    assert "200 requests a second; 1 responder" in done.stdout
    done = chordal_here(
        "bench", "request", *arguments, "--responders", "0", "--topic", "t", "--json"
    )
    (run,) = json.loads(done.stdout)["runs"]
    figures = run["figures"]
    assert (figures["replies"], figures["unanswered"], figures["nobody"]) == (0, 100, 100)
    assert figures["round_trip"] is None
