"""Changing a store: look up what is not known, plan, send, and find out what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from threading import Lock
from typing import Any

from kazoo.exceptions import KazooException, RolledBackError, RuntimeInconsistency

from airflow_provider.domain.errors import OutcomeUnknown, StoreUnavailable
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind
from airflow_provider.stores.base import Absent, Exists, Number, Receipt, RequirementFailed
from airflow_provider.stores.requests import CheckedTransaction
from airflow_provider.stores.zookeeper import planning
from airflow_provider.stores.zookeeper.clock import ServerClock, moment
from airflow_provider.stores.zookeeper.known import CLEARED, Floor, Known, Seen, SeenHead, partition_of
from airflow_provider.stores.zookeeper.nodes import unpacked
from airflow_provider.stores.zookeeper.paths import Paths
from airflow_provider.stores.zookeeper.planning import Plan, Role, View
from airflow_provider.stores.zookeeper.records import Records, csn_of
from airflow_provider.stores.zookeeper.session import Deadline, Get, ReplyLostError, Session
from airflow_provider.stores.zookeeper.turns import Turns

RACES_BEFORE_TURN = 2
"""Races for the head that a transaction loses before it queues up."""
_GUESSED_ABSENT = frozenset({Kind.BARRIER, Kind.SLICE, Kind.ROOT})
"""Kinds that are written once: not looked up before they are made."""


@dataclass(slots=True)
class _Tries:
    """How often one transaction lost the race for the head, whether a guess was wrong, its place in the queue."""

    lost: int = 0
    wrong: bool = False
    turn: str | None = None


class Writer:
    """Applies transactions to a store."""

    def __init__(
        self, session: Session, paths: Paths, known: Known, records: Records, clock: ServerClock
    ) -> None:
        self._session, self._paths, self._known = session, paths, known
        self._records, self._clock = records, clock
        self.turns = Turns(session, paths)
        self._domains: dict[DomainName, Lock] = {}

    def apply(
        self, request: CheckedTransaction, number: Number | None, deadline: Deadline
    ) -> tuple[Receipt, Plan]:
        """Apply *request*, sending it again while others move the head and *deadline* lasts.

        :raises RequirementFailed: as :meth:`MetadataStore.transact`, and so are the other errors.
        """
        held = self.turns.held(request.domain) if planning.writes_head(request) else None
        tries = _Tries(turn=held)
        try:
            while True:
                view = self._look_up(request, deadline, guess=not tries.wrong)
                if self._seems_refused(request, number, view) or requires_commit(request):
                    self._refuse(request, number, deadline)
                    view = self._look_up(request, deadline, guess=not tries.wrong)
                with self._alone(request, deadline):
                    if tries.lost >= RACES_BEFORE_TURN and tries.turn is None:
                        tries.turn = self.turns.take(request.domain, deadline)
                        self._known.heads.pop(request.domain, None)
                    outcome = self._try(request, number, view, tries, deadline=deadline)
                if outcome is not None:
                    if tries.turn == held:
                        self.turns.given_on(request.domain)
                    tries.turn = held  # it went with the transaction
                    return outcome
                if deadline.left_s() <= 0:
                    raise StoreUnavailable(
                        f"{self._session.location}: others were faster until patience ended.",
                        next_step="try again; let fewer jobs publish at the same time.",
                        store=self._session.location,
                    )
        finally:
            if tries.turn != held:
                self.turns.leave(tries.turn, deadline)

    @contextmanager
    def _alone(self, request: CheckedTransaction, deadline: Deadline) -> Iterator[None]:
        """Threads of one process do not race each other for a domain's head."""
        lock = self._domains.setdefault(request.domain, Lock()) if planning.writes_head(request) else Lock()
        mine = lock.acquire(timeout=deadline.left_s())
        try:
            yield
        finally:
            if mine:
                lock.release()

    def _try(
        self,
        request: CheckedTransaction,
        number: Number | None,
        view: View,
        tries: _Tries,
        *,
        deadline: Deadline,
    ) -> tuple[Receipt, Plan] | None:
        """Send it once; None when it failed because of what was not known."""
        if needs_head(request):
            head = self._known.heads.get(request.domain) or self._records.head(request.domain, deadline)
            view = replace(view, head=head)
        if self._seems_refused(request, number, view):
            return None  # by the next look
        plan = planning.plan(request, view, self._paths, turn=tries.turn)
        try:
            answers = self._session.change(deadline, plan.operations)
        except ReplyLostError as error:
            asked = self._ask(plan, request, deadline, error)
            return None if asked is None else (asked, plan)
        failed = _failed(answers)
        if failed is None:
            at = self._clock.hear(answers[-1].mtime, self._session.generation)
            versions = {
                key: plan.bases[key] + _data_version(answers[position]) + 1
                for key, position in plan.puts.items()
            }
            self._learn(plan, view, answers)
            return Receipt(csn=plan.csn, at=at, versions=versions), plan
        match plan.roles[failed]:
            case Role.TURN:
                self.turns.given_on(request.domain)
                tries.turn = None  # its session has ended
            case Role.HEAD:
                tries.lost += 1
                self._known.heads.pop(request.domain, None)
            case Role.RECORD:
                tries.wrong = True
                self._known.forget(planning.touched(request), plan.made)
                self._refuse(request, number, deadline)
        return None

    def _learn(self, plan: Plan, view: View, answers: Sequence[Any]) -> None:
        self._known.see_folders(plan.made)
        for partition in view.floors:
            if self._paths.partition(*partition) in plan.made:
                self._known.floors[partition] = Floor(0, 0)
        for key, position in plan.puts.items():
            self._known.see(key, Seen(_data_version(answers[position]), live=True, base=plan.bases[key]))
        for key, position in plan.deletes.items():
            match plan.operations[position].verb:
                case "set_data":
                    self._known.see(key, Seen(answers[position].version, live=False, base=plan.bases[key]))
                case "create":  # and deleted again
                    self._known.see(key, None)
        if plan.head is not None:
            self._known.heads[plan.domain] = plan.head

    # --- what is not known -----------------------------------------------------------------------------------

    def _look_up(self, request: CheckedTransaction, deadline: Deadline, *, guess: bool) -> View:
        """Gather what the plan needs; ask for what nobody has told us yet, in one flight."""
        while True:
            view = self._looked_up(request, deadline, guess=guess)
            made = [
                partition
                for partition, floor in view.floors.items()
                if floor.version is None and self._paths.partition(*partition) in view.folders
            ]
            for partition in made:  # meanwhile, by others
                self._known.forget_floor(partition)
            if not made:
                return view

    def _looked_up(self, request: CheckedTransaction, deadline: Deadline, *, guess: bool) -> View:
        keys = planning.touched(request)
        floors = self._records.unknown_floors(keys)
        for partition in floors:  # what was believed about its records is worth nothing
            self._known.forget_floor(partition)
        absent = {one.key for one in request.requires if isinstance(one, Absent)}
        required = {one.key for one in request.requires if isinstance(one, Exists)}
        records: dict[Key, Seen | None] = {}
        unknown = []
        for key in keys:
            guessed = key in absent or (key.kind in _GUESSED_ABSENT and key not in required)
            try:
                records[key] = self._known.records[key]
            except KeyError:  # other threads learn and forget
                if guess and guessed and key.kind not in CLEARED:
                    records[key] = None
                else:
                    unknown.append(key)
        creating = [key for key in keys if records.get(key) is None and key not in required]
        wanted = planning.folders_of(self._paths, request.domain, creating, number=request.commit is not None)
        folders = [path for path in wanted if path not in self._known.folders]
        if guess and any(key.kind is Kind.EPOCH for key in creating):  # then its log is new, too
            logs = {self._paths.partition(*partition_of(key)) for key in creating if key.kind is Kind.BARRIER}
            folders = [path for path in folders if path not in logs]
        head = self._known.heads.get(request.domain)
        asks_head = head is None and needs_head(request)
        requests = [
            *(Get(self._paths.partition(*partition)) for partition in floors),
            *(Get(self._paths.record(key)) for key in unknown),
            *(Get(path) for path in folders),
            *([Get(self._paths.head(request.domain))] if asks_head else []),
        ]
        if requests:
            answers = iter(self._session.ask(deadline, [self._records.sync, *requests])[1:])
            self._records.learn_floors(floors, list(islice(answers, len(floors))))
            self._records.learn(unknown, list(islice(answers, len(unknown))))
            records |= {key: self._known.records.get(key) for key in unknown}
            there = islice(answers, len(folders))
            self._known.see_folders(
                path for path, stat in zip(folders, there, strict=True) if stat is not None
            )
            head = self._records.see_head(request.domain, next(answers)) if asks_head else head
        cleared = {partition_of(key) for key in keys if key.kind in CLEARED}
        return View(
            records=records,
            floors={partition: self._known.floors.get(partition, Floor(None, 0)) for partition in cleared},
            folders=frozenset(path for path in wanted if path in self._known.folders),
            head=head or SeenHead(),
            incarnation=self._known.incarnation,
        )

    def _seems_refused(self, request: CheckedTransaction, number: Number | None, view: View) -> bool:
        """Whether what is known contradicts a requirement, or cannot tell."""
        if len({one.key for one in request.requires}) < len(set(request.requires)):
            return True  # two that cannot both hold
        for requirement in request.requires:
            if requirement.key.kind is Kind.COMMIT:
                if isinstance(requirement, Absent) and (csn_of(requirement.key) or 0) in range(
                    1, view.head.csn + 1
                ):
                    return True
                continue  # commits are never removed
            seen = view.records[requirement.key]
            if (seen.record_version if seen else None) != _expected(requirement):
                return True
        here = view.incarnation
        if request.store is not None and (here is None or request.store.incarnation != here.name):
            return True
        return number is not None and number.expected not in (None, view.head.csn + 1)

    def _refuse(self, request: CheckedTransaction, number: Number | None, deadline: Deadline) -> None:
        """Look at everything that is required, now.

        :raises RequirementFailed: for the first requirement that does not hold; none, if all of them do.
        """
        keys = [*(one.key for one in request.requires), *planning.touched(request)]
        head, found, (answer,) = self._records.look(
            request.domain, keys, deadline, more=[Get(self._paths.incarnation)]
        )
        incarnation = self._known.see_incarnation(answer)
        if request.store is not None and request.store.incarnation != incarnation.name:
            raise RequirementFailed.of(request.store, incarnation.name)
        for requirement in request.requires:
            stamped = found.get(requirement.key)
            version = None if stamped is None else stamped.version
            if version != _expected(requirement):
                raise RequirementFailed.of(requirement, version)
        if number is not None and number.expected not in (None, head.csn + 1):
            raise RequirementFailed.of(number, head.csn + 1)

    # --- lost replies ----------------------------------------------------------------------------------------

    def _ask(
        self, plan: Plan, request: CheckedTransaction, deadline: Deadline, lost: ReplyLostError
    ) -> Receipt | None:
        """Ask what became of a transaction whose reply was lost: its name stands in what it wrote.

        :return: None when it changes nothing, so that it may be sent again.
        :raises OutcomeUnknown: its name is not there. It may still come, or others wrote over it.
        """
        self._known.forget(planning.touched(request), plan.made)
        self._known.heads.pop(request.domain, None)
        if plan.witness is None:
            return None
        puts = list(plan.puts)
        paths = [plan.witness, *(self._paths.record(key) for key in puts)]
        try:
            answers = self._session.ask(deadline, [self._records.sync, *(Get(path) for path in paths)])[1:]
        except StoreUnavailable as error:
            raise self._unknown(lost) from error
        ours = [
            answer is not None and unpacked(path, answer[0]).transaction == plan.transaction
            for path, answer in zip(paths, answers, strict=True)
        ]
        if not all(ours):
            raise self._unknown(lost)
        versions = {
            key: plan.bases[key] + answer[1].version + 1
            for key, answer in zip(puts, answers[1:], strict=True)
        }
        return Receipt(csn=plan.csn, at=moment(answers[0][1].mtime), versions=versions)

    def _unknown(self, lost: ReplyLostError) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"{self._session.location}: the transaction was not confirmed: {lost}.",
            next_step="read what the transaction would have changed.",
            store=self._session.location,
        )


def needs_head(request: CheckedTransaction) -> bool:
    """Whether a plan cannot be made without the head."""
    return planning.writes_head(request) or requires_commit(request)


def requires_commit(request: CheckedTransaction) -> bool:
    """Whether a requirement is about a commit, which may have been folded."""
    return any(one.key.kind is Kind.COMMIT for one in request.requires)


def _expected(requirement: Exists | Absent) -> int | None:
    return requirement.version if isinstance(requirement, Exists) else None


def _failed(answers: Sequence[Any]) -> int | None:
    """The position of the operation that failed; the others were rolled back or never tried."""
    for position, answer in enumerate(answers):
        if isinstance(answer, KazooException) and not isinstance(
            answer, RolledBackError | RuntimeInconsistency
        ):
            return position
    return None


def _data_version(answer: Any) -> int:
    """The version of a node's data after it was set, or made."""
    return int(answer.version) if hasattr(answer, "version") else 0
