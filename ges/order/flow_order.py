"""Each publisher's events in order and once, where a broker sees only what was for it.

Numbers have gaps here: event 5 may have been for others. While an event comes the same way as the
one before it (:mod:`ges.order.via`), what is between their numbers was for others, and the event
is delivered at once. So is one whose number follows. Else there is *doubt*: the event waits, and
the source is asked for the numbers between (:mod:`ges.order.recall`)::

    came        way   then
    3           a     delivered
    7           a     delivered: 4 to 6 were for others
    12          b     doubt: hold it, ask for 8 to 11
    9           a     held: it was late on the old way
    13          b     held behind 12
    answer: 8           delivered: 8, 9, 12, 13; 10 and 11 were for others

Without an answer after 4 s, what waits is delivered all the same. An event that the source says to
have sent, and that has not come half a second later, is asked for again, and once more after one
second and two: a unit may have changed just now, and the answer went to the address that this
broker had then.

A question names its numbers, so what an answer settles does not depend on what comes meanwhile.
Questions are returned as data, one batch for each source at a time, and at most 64 batches a second
for each.

The first event of a publisher is delivered without a question, unless something has changed here
less than 3 s ago, or the event is marked: then events before it may be on another way.

An event that comes twice is dropped here, too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ges.wire.event_runs import EventRun
from ges.wire.events import Flow
from ges.wire.recall_messages import MAX_LISTED, MAX_RANGES, FlowTail, RangeDone, WantedRange
from overlay.ids import LinkClass, Nanos, nanos
from overlay.machine import TimerTable

PATIENCE_NS = nanos(4)  #: an answer is waited for so long
ASK_AGAIN_NS = nanos(0.5)  #: questions and answers may be lost: it is asked again after this
UNKNOWN_NS = nanos(1)  #: and so long for what nobody knows anything of
CHANGED_NS = nanos(3)  #: after a change here, first events of publishers are doubtful so long
BATCH_NS = nanos(1 / 64)  #: between two batches of questions to one source
MAX_HELD = 65536  #: events held for one publisher ...
MAX_HELD_BYTES = 64 * 1024 * 1024  #: ... and bytes for all, or fewer
MAX_PUBLISHERS = 65536
HELD_BYTES = 256  #: of memory for an event that waits for others, beside its own bytes
FLOW_BYTES = 480  #: of memory for a flow, ...
QUESTION_BYTES = 640  #: ... for a question, ...
CHOSEN_BYTES = 40  #: ... and for each number that it names
MAX_OPEN = 64  #: questions of one flow
MAX_CHOSEN = 4096  #: numbers that are named in one message; a question names fewer
MAX_STEPS = 4  #: brokers asked in turn, where a publisher has roamed


@dataclass(slots=True)
class _Question:
    """Numbers of which it is not known whether they are for this broker."""

    flow: Flow
    source: int
    first: int  #: all below are settled
    last: int
    chosen: tuple[int, ...]  #: if not empty, only these are open
    steps: int  #: brokers asked before
    late_until: Nanos | None = None  #: all are on their way, as the source has said; or lost
    named: int = field(init=False)  #: numbers in ``chosen`` when it was raised

    def __post_init__(self) -> None:
        self.named = len(self.chosen)

    def pass_over(self, come: dict[int, EventRun]) -> bool:
        """Leave out what has come from the front; say whether nothing is left."""
        if self.chosen:
            self.chosen = tuple(each for each in self.chosen if each not in come)
            if self.chosen:
                self.first = self.chosen[0]
            return not self.chosen
        while self.first in come:
            self.first += 1
        return self.first > self.last


class _State:
    __slots__ = ("done", "held", "last", "questions", "via")

    def __init__(self, done: int) -> None:
        self.done = done  #: all up to here is delivered, or not for this broker
        self.last = done  #: the highest number that has come; beyond ``done`` all are held
        self.via = -1  #: the way of that one
        self.held: dict[int, EventRun] = {}
        self.questions: dict[int, _Question] = {}


class FlowOrdering:
    """The order of each flow at one edge."""

    def __init__(self, wants: Callable[[bytes], bool] = lambda topic: True) -> None:
        """Take who says whether events of a topic are wanted here, of those that are listed."""
        self._wants = wants
        self._flows: OrderedDict[Flow, _State] = OrderedDict()
        self._questions: dict[int, _Question] = {}  #: all, by number
        self._next = 0
        self._patience: TimerTable[int] = TimerTable()
        self._again: TimerTable[int] = TimerTable()  #: questions that were asked
        self._unasked: dict[int, dict[int, None]] = {}  #: source -> numbers of questions
        self._asked_at: dict[int, Nanos] = {}  #: source -> when it was asked last
        self._held_bytes = 0
        self._most_held_bytes = MAX_HELD_BYTES
        self._chosen = 0  #: numbers that questions named when they were raised
        self._changed_until: Nanos = 0
        self.lost = 0  #: questions that were given up: there may have been events
        self.too_late = 0  #: events that came twice, or after they were given up
        self.doubts = 0  #: questions raised

    @property
    def flows(self) -> Iterable[Flow]:
        """All flows known."""
        return self._flows.keys()

    @property
    def holds(self) -> int:
        """Return how many events wait."""
        return sum(len(state.held) for state in self._flows.values())

    @property
    def memory(self) -> int:
        """Bytes of memory that all flows take, with what is held and what is in question."""
        questions = QUESTION_BYTES * len(self._questions) + CHOSEN_BYTES * self._chosen
        return FLOW_BYTES * len(self._flows) + questions + self._held_bytes

    def bound(self, most_held_bytes: int) -> None:
        """Hold events of no more bytes, and no more than :data:`MAX_HELD_BYTES`."""
        self._most_held_bytes = min(MAX_HELD_BYTES, most_held_bytes)

    def shed(self, most: int) -> None:
        """Forget flows until no more than so many bytes are taken, or events wait in all others.

        Those first that nothing is asked about, and of them those longest without an event. Events
        that wait in a flow are never lost here; :meth:`bound` says how much that may be.
        """
        for has_questions in (False, True):
            excess = self.memory - most
            if excess <= 0:
                return
            old = (f for f, s in self._flows.items() if has_questions or not s.questions)
            idle = (flow for flow in old if not self._flows[flow].held)
            for flow in list(islice(idle, -(-excess // FLOW_BYTES))):
                if self.memory <= most:
                    return
                self._forget(self._flows.pop(flow))

    def doubt(self, now: Nanos) -> None:
        """Something has changed here: first events may have overtaken others."""
        self._changed_until = now + CHANGED_NS

    def is_back(self, now: Nanos) -> bool:
        """Say whether this broker was off the ring a moment ago: no event named it then."""
        return now < self._changed_until

    def unsure(self) -> None:
        """This broker or its source is named otherwise now: what was sent before may be missing."""
        for state in self._flows.values():
            state.via = -1

    def admit(
        self, run: EventRun, now: Nanos, *, marked: bool = False, via: int = 0, source: int = 0
    ) -> Sequence[EventRun]:
        """Take events for this broker; return what is to be delivered now, in order.

        ``marked``: events before these may come another way. ``via``: the digest of their way.
        ``source``: the broker where they were published.
        """
        head = run.head
        first, end = head.sequence, head.sequence + run.count
        state = self._flows.get(head.flow)
        if state is None:
            is_doubtful = marked or now < self._changed_until
            state = self._begin(head.flow, 0 if is_doubtful else first - 1)
        else:
            self._flows.move_to_end(head.flow)
        is_sure = first == state.last + 1 or (via == state.via and not marked)
        if first > state.last and is_sure and not state.questions:
            state.done = state.last = end - 1
            state.via = via
            return (run,)
        if end - 1 > state.last:
            if first > state.last and not is_sure:
                self._ask(head.flow, source, state.last + 1, first - 1, now)
            state.last, state.via = end - 1, via
        return self._hold(head.flow, state, run)

    def recalled(self, run: EventRun) -> Sequence[EventRun]:
        """Take events of an answer; return what is to be delivered now."""
        state = self._flows.get(run.head.flow)
        if state is None or run.head.sequence + run.count - 1 > state.last:
            self.too_late += run.count
            return ()
        return self._hold(run.head.flow, state, run)

    def learn(self, tail: FlowTail, source: int, now: Nanos) -> None:
        """A source says which events of a flow were for this broker of late, if there were any.

        Those that have not come may be lost on the way, with no later one that would show it.
        """
        flow = (tail.publisher, tail.incarnation, tail.link_class)
        state = self._flows.get(flow)
        if state is None:
            state = self._begin(flow, tail.first - 1)
        if tail.last > state.last:
            self._ask(flow, source, state.last + 1, tail.last, now)
            state.last, state.via = tail.last, -1

    def look_up(
        self, publisher: bytes, link_class: LinkClass, sequence: int
    ) -> Iterator[tuple[int, str]]:
        """Yield for each life of a publisher what became of its event of that number.

        ``done``: delivered, or not for this broker; ``held``: it waits for earlier ones; ``asked``:
        it may be missing; ``never``: nothing so late has come.
        """
        for flow, state in self._flows.items():
            if flow[0] != publisher or flow[2] is not link_class:
                continue
            if sequence in state.held:
                yield flow[1], "held"
            elif sequence <= state.done:
                yield flow[1], "done"
            else:
                yield flow[1], "asked" if sequence <= state.last else "never"

    @property
    def has_questions(self) -> bool:
        """There is something to be asked."""
        return bool(self._unasked)

    def settle(self, answer: RangeDone, now: Nanos) -> Sequence[EventRun]:
        """Take the end of an answer; return what is to be delivered now."""
        question = self._close(answer.number)
        if question is None:
            return ()
        flow, state = question.flow, self._flows[question.flow]
        last = min(answer.last, question.last)
        steps = question.steps + 1
        if question.first < answer.floor:  # it was published elsewhere, or long ago
            until = min(answer.floor - 1, question.last)
            chosen = tuple(each for each in question.chosen if each <= until)
            if not chosen and question.chosen:
                pass
            elif answer.before is not None and steps <= MAX_STEPS:
                self._ask(flow, answer.before, question.first, until, now, chosen, steps)
            elif until > state.done:
                first = max(question.first, state.done + 1)
                unknown = _Question(flow, question.source, first, until, chosen, steps)
                self._wait(unknown, now, UNKNOWN_NS)
        wanted = tuple(
            each.sequence
            for each in answer.listed
            if each.sequence not in state.held
            and state.done < each.sequence <= last
            and self._wants(each.topic)
        )[:MAX_LISTED]
        if wanted:
            self._ask(flow, question.source, wanted[0], wanted[-1], now, wanted, question.steps)
        late = tuple(each for each in answer.sent if state.done < each <= last)
        late = tuple(each for each in late if each not in state.held)
        if late:  # they are on their way, by another one than the answer
            until = question.late_until if question.late_until is not None else now + PATIENCE_NS
            of = _Question(flow, question.source, late[0], late[-1], late, question.steps, until)
            waited = now + PATIENCE_NS - until
            self._again.set(self._wait(of, now, until - now), now + max(ASK_AGAIN_NS, waited))
        if last < question.last and last >= question.first:
            rest = tuple(each for each in question.chosen if each > last)
            if rest or not question.chosen:
                first = rest[0] if rest else last + 1
                self._ask(flow, question.source, first, question.last, now, rest, question.steps)
        return self._release(flow, state)

    def take_questions(self, now: Nanos) -> list[tuple[int, tuple[WantedRange, ...]]]:
        """Return what is to be asked now: sources, and a batch of questions for each."""
        taken = []
        for source in list(self._unasked):
            if now < self._asked_at.get(source, -BATCH_NS) + BATCH_NS:
                continue
            numbers = list(self._unasked.pop(source))
            most = self._that_fit(numbers)
            if len(numbers) > most:
                self._unasked[source] = dict.fromkeys(numbers[most:])
            questions = [(number, self._questions[number]) for number in numbers[:most]]
            asked = tuple(
                WantedRange(number, *each.flow, each.first, each.last, each.chosen)
                for number, each in questions
            )
            self._asked_at[source] = now
            for number in numbers[:most]:
                self._again.set(number, now + ASK_AGAIN_NS)
            taken.append((source, asked))
        if len(self._asked_at) > 4096:
            self._asked_at = {s: at for s, at in self._asked_at.items() if now < at + BATCH_NS}
        return taken

    def _that_fit(self, numbers: Sequence[int]) -> int:
        """Return how many questions are asked in one message, which has to fit into a frame."""
        room = MAX_CHOSEN
        for at, number in enumerate(numbers[:MAX_RANGES]):
            room -= len(self._questions[number].chosen)
            if room < 0:
                return at
        return min(len(numbers), MAX_RANGES)

    def next_deadline(self) -> Nanos | None:
        """Return when :meth:`expire` or :meth:`take_questions` has something to do."""
        due = [self._asked_at.get(source, -BATCH_NS) + BATCH_NS for source in self._unasked]
        ends = (self._patience.next_deadline(), self._again.next_deadline(), *due)
        return min((end for end in ends if end is not None), default=None)

    def expire(self, now: Nanos) -> list[EventRun]:
        """Give up what has been waited for too long; return what is to be delivered now."""
        ready: list[EventRun] = []
        while (number := self._patience.pop_expired(now)) is not None:
            ready += self._give_up(number)
        while (number := self._again.pop_expired(now)) is not None:
            self._unasked.setdefault(self._questions[number].source, {})[number] = None
        return ready

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _begin(self, flow: Flow, done: int) -> _State:
        state = self._flows[flow] = _State(done)
        if len(self._flows) > MAX_PUBLISHERS:
            self._forget(self._flows.popitem(last=False)[1])
        return state

    def _forget(self, gone: _State) -> None:
        self.lost += len(gone.questions)
        for number in gone.questions:
            self._drop(number)
        self._held_bytes -= sum(_size_of(run) for run in gone.held.values())

    def _ask(
        self,
        flow: Flow,
        source: int,
        first: int,
        last: int,
        now: Nanos,
        chosen: tuple[int, ...] = (),
        steps: int = 0,
    ) -> None:
        number = self._wait(_Question(flow, source, first, last, chosen, steps), now)
        self._unasked.setdefault(source, {})[number] = None
        self.doubts += 1

    def _wait(self, question: _Question, now: Nanos, patience: Nanos = PATIENCE_NS) -> int:
        """Wait for what is in question; return its number."""
        self._next += 1
        self._questions[self._next] = question
        self._chosen += question.named
        self._flows[question.flow].questions[self._next] = question
        self._patience.set(self._next, now + patience)
        return self._next

    def _close(self, number: int) -> _Question | None:
        """Take a question back, or take note that it is settled."""
        if number not in self._questions:
            return None
        question = self._drop(number)
        del self._flows[question.flow].questions[number]
        return question

    def _drop(self, number: int) -> _Question:
        question = self._questions.pop(number)
        self._chosen -= question.named
        self._patience.cancel(number)
        self._again.cancel(number)
        unasked = self._unasked.get(question.source, {})
        unasked.pop(number, None)
        if not unasked:
            self._unasked.pop(question.source, None)
        return question

    def _give_up(self, number: int) -> Sequence[EventRun]:
        question = self._close(number)
        assert question is not None
        self.lost += 1
        return self._release(question.flow, self._flows[question.flow])

    def _hold(self, flow: Flow, state: _State, run: EventRun) -> Sequence[EventRun]:
        """Hold events that are in doubt, each by itself; return what can be delivered now."""
        for event in run.split():
            sequence = event.head.sequence
            if sequence <= state.done or sequence in state.held:
                self.too_late += 1
                continue
            alone = event.alone()
            state.held[sequence] = alone
            self._held_bytes += _size_of(alone)
        for number, question in list(state.questions.items()):
            if question.pass_over(state.held):
                self._close(number)
        ready = list(self._release(flow, state))
        while state.questions and (
            len(state.questions) > MAX_OPEN
            or len(state.held) > MAX_HELD
            or self._held_bytes > self._most_held_bytes
        ):
            ready += self._give_up(min(state.questions, key=lambda n: state.questions[n].first))
        return ready

    def _release(self, flow: Flow, state: _State) -> Sequence[EventRun]:
        """Return what no open question is before, in order."""
        if state.questions:
            barrier = min(question.first for question in state.questions.values())
        else:
            barrier = state.last + 1
        ready = []
        for sequence in sorted(each for each in state.held if each < barrier):
            run = state.held.pop(sequence)
            self._held_bytes -= _size_of(run)
            state.done = sequence
            ready.append(run)
        return ready


def _size_of(run: EventRun) -> int:
    return len(run.data) + HELD_BYTES
