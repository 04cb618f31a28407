"""Who answers for the records of a broker that is gone (paper 004, sections 3.2 and 3.4.1).

A and C, the brokers beside the dead B, own B's records from now on: shared if their load permits,
else some are passed on to the next neighbours, else a new broker is asked for
(:class:`~ring.facts.ProvisionerNeeded`).

*At least one owner.* Every broker that keeps copies of B's records acts by itself when it learns
that B is gone. A and C each take the keys that fall to them by a hash of the key, weighed by the
load both have announced; where only one of them has copies it takes all. After a while A and C take
without a choice the records that nobody has claimed, and after another while any broker near that
has a copy. A broker that has a copy and stands too far away asks whether it is the last one
(:mod:`ring.records.far_estates`).

*At most one owner.* Each take-over raises the epoch in the claim. Claims are told to all four ring
neighbours and compared (:mod:`ring.records.replicas`): two owners of one key, as A and C if they
did not see the same, stand so near each other that a common neighbour knows both, and the smaller
claim gives way. Heirs that stand farther apart, as after a partition, meet at the record's home
(:mod:`ring.records.homes`). The smaller claim is also that of a broker that comes back after it was
taken for dead. Its place may be far away now, so it does not wait to be found out: it asks those
that were around it before what has become of its records, and owns none until they have answered.

Departs from the paper, which takes over as a whole what the backups hold, and does not say how two
who act at the same time agree: epochs, the hash and the order of claims are this project's.
"""

from __future__ import annotations

from overlay.circular import following
from overlay.ids import Peer
from ring.circle.links import RingLinks
from ring.circle.neighbourhood import Neighbourhood
from ring.core import Core, Timer
from ring.facts import DutyTaken
from ring.geometry import between, clockwise
from ring.records.backups import Backups
from ring.records.claims import fraction_of, next_claim
from ring.records.far_estates import FarEstates
from ring.records.handover import Handover
from ring.records.homes import Homes
from ring.records.lone_verdicts import LoneVerdicts
from ring.records.overload import Overload
from ring.records.reclaim import Reclaimer
from ring.records.replicas import Held, Replicas
from ring.wire.messages import Member
from ring.wire.record_messages import Entry, Fence, ReclaimAnswer


class Duties:
    """Decides who owns what; composes the parts that do the rest."""

    def __init__(self, core: Core, links: RingLinks, neighbourhood: Neighbourhood) -> None:
        self._core = core
        self._links = links
        self._neighbourhood = neighbourhood
        self.backups = Backups(core, links, neighbourhood)
        self.replicas = Replicas(core, links, self.backups)
        self.handover = Handover(core, links, neighbourhood, self.backups, self.replicas)
        self.reclaimer = Reclaimer(core, links, neighbourhood, self.backups, self.replicas)
        self.far_estates = FarEstates(core, links, self.reclaimer, self.replicas, self._take_far)
        self.lone_verdicts = LoneVerdicts(neighbourhood, self.backups, self.replicas, self.handover)
        self.homes = Homes(core, links, self.backups, self.replicas)
        self.overload = Overload(core, neighbourhood, self.backups, self.replicas, self.handover)
        self.is_dirty = False  #: somebody is gone and has left records

    # ── commands ──────────────────────────────────────────────────────────────────────────────

    def put(self, key: str, body: bytes) -> None:
        """Own a record, or write it; a duty known to be another's comes to us."""
        backups = self.backups
        suspended = self.reclaimer.suspended.get(key)
        if suspended is not None and backups.refuses(key, body) is None:
            suspended.body = body
            return
        if key in backups.own or backups.refuses(key, body) is not None:
            backups.put(key, body)
            self.handover.on_written(key)
            return
        replica = self.replicas.remove(key)
        if replica is None:
            backups.put(key, body)
            return
        held = replica.held
        self._claim(replica.entry, held, body)
        if held.gone_at is None:
            self._links.tell(held.peer, Fence((backups.own[key].entry,)))
        backups.pump_all()

    def drop(self, key: str) -> None:
        """Give up a record of ours for good, and its copies with it; an unknown key is no error."""
        self.reclaimer.suspended.pop(key, None)
        self.handover.withdraw(key)
        if self.backups.drop_for_good(key) is not None:
            self.backups.pump_all()

    def on_load(self, permille: int) -> None:
        """The layer above says how loaded this broker is, in thousandths of full load."""
        self.backups.announce(permille)
        self.overload.relieve()
        self._keep_watch()

    def leave(self) -> None:
        """Begin to hand over all there is."""
        self.backups.leaving = True
        self.backups.compare()
        self.handover.give_all()
        self._keep_watch()

    @property
    def has_left(self) -> bool:
        """A leave is under way, and nothing is left to hand over."""
        return self.backups.leaving and not self.backups.own

    # ── what happens around ───────────────────────────────────────────────────────────────────

    def on_gone(self, member: Member, *, witnessed: bool) -> None:
        """``member`` died or left; the pointers are about to change."""
        if witnessed:
            self.lone_verdicts.settle(member.uid)
        if self.replicas.on_gone(member.uid, member.incarnation, witnessed=witnessed):
            self.is_dirty = True
        self.handover.expire(gone=member.uid)
        self.handover.refusing.pop(member.uid, None)

    def on_link_up(self, peer: Peer) -> None:
        """A new link; its other end may have begun another life."""
        self.lone_verdicts.on_link_up(peer)
        held = self.replicas.owners.get(peer.uid)
        if held is not None and held.peer.incarnation < peer.incarnation:
            self.is_dirty |= self.replicas.on_gone(peer.uid, held.peer.incarnation)
        self.backups.on_link_up(peer.uid)

    def on_rejoining(self) -> None:
        """We lost our place: stop to own anything until it is known what became of it."""
        around = [member.peer for member in self._neighbourhood.adjacent.values()]
        around += [pending.to.peer for pending in self.handover.pending.values()]
        for uid in self.backups.targets:
            if uid in self._links.up:
                around.append(self._links.up[uid].peer)
        self.handover.clear()
        self.lone_verdicts.doubt()
        self.far_estates.clear()
        self.reclaimer.suspend(around)

    def on_cut_off(self) -> None:
        """We were cut off for a while, and held others for dead; we have kept our place."""
        self.lone_verdicts.doubt()
        self.backups.pump_all()

    def follow(self) -> None:
        """Links or pointers have changed."""
        self.is_dirty = False
        self.backups.follow()
        self.handover.answer_safe()
        self._settle_estates()
        if self.backups.leaving:
            self.handover.give_all()
        self.overload.relieve()
        self._keep_watch()

    def on_answered(self) -> None:
        """An offer was answered, or backups agreed: go on with what waited for it."""
        self.handover.answer_safe()
        if self.backups.leaving:
            self.handover.give_all()
        else:
            self.overload.relieve()
        self.backups.pump_all()
        self._keep_watch()

    def on_reclaim_answer(self, uid: str, answer: ReclaimAnswer) -> None:
        """``uid`` says who owns what: of our own records, or of those that nobody may own."""
        if self.far_estates.on_answer(uid, answer):
            self._keep_watch()
        else:
            self.reclaimer.on_answer(uid, answer)

    def on_watch(self) -> None:
        """Look after the estates and offers that are not settled."""
        self.handover.expire()
        self.follow()

    def on_reconcile(self) -> None:
        """Compare all copies with their owners', slowly and for ever."""
        core = self._core
        self.replicas.sweep()
        self._settle_estates()
        self.reclaimer.ask_again()
        self.overload.begin_again()
        self.backups.compare()
        self.homes.tell()
        self._keep_watch()
        core.arm(Timer.RECONCILE, "", core.jitter(core.config.reconcile_ns))

    def on_copy(self, uid: str) -> None:
        """The pause before the next bytes to a neighbour is over; no uid stands for all."""
        target = self.backups.targets.get(uid)
        if target is not None:
            self.backups.pump(target)
        elif not uid:
            self.backups.pump_all()

    # ── taking over ───────────────────────────────────────────────────────────────────────────

    def _settle_estates(self) -> None:
        core = self._core
        if not core.joined:
            return
        for held in list(self.replicas.estates):
            assert held.gone_at is not None
            heirs = self._heirs(held)
            age = (core.now - held.gone_at) // core.config.silence_ns
            if held.is_silent or (age >= 3 and not self._is_near(held.place)):
                self.far_estates.ask_after(held)
                continue
            taken = 0
            known = max(1, held.summary.count if held.summary else len(held.keys))
            for key in sorted(held.keys):
                replica = self.replicas.records[key]
                has_bytes = replica.body is not None
                has_latest = replica.content == replica.entry.content  # as far as we were told
                if age >= 3 and not has_bytes:
                    self.replicas.remove(key)  # up to those who have the bytes
                elif (
                    has_bytes
                    and (has_latest or age >= 3)  # older bytes are better than none
                    and self._falls_to_us(key, held, heirs, age)
                    and self._take(key, held)
                ):
                    taken += 1
            if taken:
                self.overload.weigh(held.load * min(taken, known) // known)
                self.backups.follow()
        self.far_estates.forget_settled()

    def _heirs(self, held: Held) -> tuple[str, ...]:
        """Return A and C, left and right of where the dead broker was; leavers do not count."""
        hood, here = self._neighbourhood, self._core.member
        members = [here] if not self.backups.leaving else []
        members += [
            link.member
            for uid, link in self._links.up.items()
            if link.member and uid not in hood.suspects and uid not in self.backups.leavers
        ]
        if not members:
            return ()
        left = min(members, key=lambda m: clockwise(m.ring_id, held.place))
        right = min(members, key=lambda m: clockwise(held.place, m.ring_id))
        return (left.uid, right.uid)

    def _falls_to_us(self, key: str, held: Held, heirs: tuple[str, ...], age: int) -> bool:
        """Say whether we are to take a record; ``age`` counts detection times since the death."""
        me = self._core.peer.uid
        if me not in heirs:
            return age >= 2 and self._is_near(held.place)
        other = next((uid for uid in heirs if uid != me), None)
        if age >= 1 or other is None or held.summary is None or other not in held.summary.holders:
            return True
        rooms = [self.overload.room(uid) for uid in heirs]
        share = rooms[0] * 1000 // sum(rooms) if sum(rooms) else 500
        return (fraction_of(key) < share) == (heirs[0] == me)

    def _is_near(self, place: int) -> bool:
        """Say whether ``place`` is no farther than our second neighbour.

        While the ring changes, brokers far away may get copies for a moment. If they claimed what
        is in them, no common neighbour would know that there is another claim.
        """
        left, right = self._neighbourhood.left, self._neighbourhood.right
        if len(right) < 2 or left[-1].uid in {member.uid for member in right}:
            return True
        return between(left[-1].ring_id, place, right[-1].ring_id)

    def _take(self, key: str, held: Held, claim: Entry | None = None) -> bool:
        """Own a record of the dead, if there is room; by the claim after ``claim``, or its own."""
        replica = self.replicas.records[key]
        body = replica.body
        assert body is not None
        if self.backups.refuses(key, body) is not None:
            self.overload.ask_provisioner(max(1, held.load // len(held.keys)))
            return False
        self.replicas.remove(key)
        self._claim(claim or replica.entry, held, body)
        return True

    def _take_far(self, key: str, held: Held, claim: Entry) -> bool:
        """Own a record of a far estate by the claim after ``claim``, and tell our neighbours."""
        known = max(1, held.summary.count if held.summary else len(held.keys))
        if not self._take(key, held, claim):
            return False
        self.overload.weigh(held.load // known)
        self.backups.pump_all()
        return True

    def _claim(self, entry: Entry, held: Held, body: bytes) -> None:
        """Own the record ``entry`` of ``held``, with ``body`` in it, by the next claim."""
        claim = next_claim(entry)
        version, taken_from = following(entry.version), entry if held.is_lone else None
        self.backups.hold(claim, body, held.uid, version=version, taken_from=taken_from)
        self._core.notify(DutyTaken(entry.key, body, held.uid, claim.epoch))

    # ── inside ──────────────────────────────────────────────────────────────────────────────────

    def _keep_watch(self) -> None:
        waiting = self.replicas.estates or self.handover.pending
        if waiting and (Timer.DUTIES, "") not in self._core.timers:
            self._core.arm(Timer.DUTIES, "", self._core.config.silence_ns)
