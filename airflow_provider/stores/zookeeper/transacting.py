"""Apply transactions: look up what is not known, plan, send, and find out the outcome.

A client remembers nodes and versions (:mod:`~airflow_provider.stores.zookeeper.known`), and may guess that a record is
new. A plan that relies on a wrong hint fails as one of which a requirement does not hold. So a failed ``multi`` is
never reported as it is: everything that the transaction requires is read, and either a requirement fails by what was
read, or the transaction is planned again.
"""

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
from airflow_provider.stores.zookeeper.publish_queues import PublishQueues
from airflow_provider.stores.zookeeper.records import Records, csn_of
from airflow_provider.stores.zookeeper.session import Deadline, Get, ReplyLostError, Session

RACES_BEFORE_QUEUE = 2
"""Number of lost races for the head after which a transaction queues for its turn."""
_GUESSED_ABSENT = frozenset({Kind.EVENT, Kind.SLICE, Kind.SOURCE})
"""Kinds that are written once: guessed to be absent, instead of looked up, before they are created."""


@dataclass(slots=True)
class _Tries:
    """Progress of one transaction.

    :param lost: number of lost races for the head.
    :param wrong: a hint or a guess was wrong, so that nothing is guessed any more.
    :param place: path of its node in the queue for the head; None if it does not queue.
    """

    lost: int = 0
    wrong: bool = False
    place: str | None = None


class Writer:
    """Applies transactions to a store."""

    def __init__(
        self, session: Session, paths: Paths, known: Known, records: Records, clock: ServerClock
    ) -> None:
        self._session, self._paths, self._known = session, paths, known
        self._records, self._clock = records, clock
        self.queues = PublishQueues(session, paths)
        self._domains: dict[DomainName, Lock] = {}

    def apply(
        self, request: CheckedTransaction, number: Number | None, deadline: Deadline
    ) -> tuple[Receipt, Plan]:
        """Apply *request*; try again until *deadline* while other commits move the head.

        :raises RequirementFailed: see :meth:`MetadataStore.transact`, also for the other errors.
        """
        held = self.queues.held(request.domain) if planning.writes_head(request) else None
        tries = _Tries(place=held)
        try:
            while True:
                view = self._look_up(request, deadline, guess=not tries.wrong)
                if self._seems_refused(request, number, view) or requires_commit(request):
                    # Hints cannot refuse. If all requirements hold by what is read now, the hints are right after it.
                    self._refuse(request, number, deadline)
                    view = self._look_up(request, deadline, guess=not tries.wrong)
                with self._alone(request, deadline):
                    if tries.lost >= RACES_BEFORE_QUEUE and tries.place is None:
                        tries.place = self.queues.take(request.domain, deadline)
                        self._known.heads.pop(request.domain, None)  # others have moved it while we waited
                    outcome = self._try(request, number, view, tries, deadline=deadline)
                if outcome is not None:
                    if tries.place == held:
                        self.queues.given_on(request.domain)
                    tries.place = held  # the transaction has removed our node, so there is nothing to leave
                    return outcome
                if deadline.left_s() <= 0:
                    raise StoreUnavailable(
                        f"{self._session.location}: other commits came first until the time limit of the transaction.",
                        next_step="try again; let fewer jobs publish at the same time.",
                        store=self._session.location,
                    )
        finally:
            if tries.place != held:
                self.queues.leave(tries.place, deadline)

    @contextmanager
    def _alone(self, request: CheckedTransaction, deadline: Deadline) -> Iterator[None]:
        """Keep threads of one process from racing each other for a domain's head; at the deadline they go on."""
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
        """Plan and send *request* once; return None if it must be planned again.

        :raises RequirementFailed: by what was read after the failure.
        :raises OutcomeUnknown: the reply was lost, and the store does not show the transaction.
        """
        if needs_head(request):
            # Now, with the lock held: another thread of this process may have moved the head since the look-up.
            head = self._known.heads.get(request.domain) or self._records.head(request.domain, deadline)
            view = replace(view, head=head)
        if self._seems_refused(request, number, view):
            return None  # because of the newer head; the next round reads and refuses
        plan = planning.plan(request, view, self._paths, place=tries.place)
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
            case Role.QUEUE:
                self.queues.given_on(request.domain)
                tries.place = None  # its node has ended with its session
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
        """Gather the hints for a plan; ask for those that are missing, in one flight.

        :param guess: records that are usually new are taken to be absent without asking.
        """
        while True:
            view = self._looked_up(request, deadline, guess=guess)
            # Another client has made the folder since its floor was read: the plan would neither create nor check
            # it, and so rely on a floor that nothing proves.
            made = [
                partition
                for partition, floor in view.floors.items()
                if floor.version is None and self._paths.partition(*partition) in view.folders
            ]
            for partition in made:
                self._known.forget_floor(partition)
            if not made:
                return view

    def _looked_up(self, request: CheckedTransaction, deadline: Deadline, *, guess: bool) -> View:
        keys = planning.touched(request)
        floors = self._records.unknown_floors(keys)
        for partition in floors:  # hints about records are only good together with the floor of their folder
            self._known.forget_floor(partition)
        absent = {requirement.key for requirement in request.requires if isinstance(requirement, Absent)}
        required = {requirement.key for requirement in request.requires if isinstance(requirement, Exists)}
        records: dict[Key[Any], Seen | None] = {}
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
        if guess and any(key.kind is Kind.EPOCH for key in creating):  # a new epoch has no log yet
            logs = {self._paths.partition(*partition_of(key)) for key in creating if key.kind is Kind.EVENT}
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
        """Return whether the hints contradict a requirement, or are not enough to tell."""
        if len({requirement.key for requirement in request.requires}) < len(set(request.requires)):
            return True  # two requirements of one key that cannot both hold
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
        """Read everything that *request* requires, and correct the hints.

        :raises RequirementFailed: for the first requirement that does not hold.
        """
        keys = [*(requirement.key for requirement in request.requires), *planning.touched(request)]
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
        """Find out the outcome of a transaction whose reply was lost, by its name in the nodes that it writes.

        :return: its receipt; None if it writes nothing, so that it may be sent again.
        :raises OutcomeUnknown: its name is missing. The transaction may still arrive at the leader, or its nodes
            were overwritten.
        """
        # Either outcome makes these hints wrong.
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
        # The witness alone proves that it was applied. The receipt needs the versions of all puts, and a node that was
        # overwritten does not tell its former version any more.
        if not all(ours):
            raise self._unknown(lost)
        versions = {
            key: plan.bases[key] + answer[1].version + 1
            for key, answer in zip(puts, answers[1:], strict=True)
        }
        return Receipt(csn=plan.csn, at=moment(answers[0][1].mtime), versions=versions)

    def _unknown(self, lost: ReplyLostError) -> OutcomeUnknown:
        return OutcomeUnknown.of(self._session.location, "transaction", lost)


def needs_head(request: CheckedTransaction) -> bool:
    """Return whether *request* can only be planned on the head."""
    return planning.writes_head(request) or requires_commit(request)


def requires_commit(request: CheckedTransaction) -> bool:
    """Return whether *request* requires a commit, or its absence.

    Commits are folded into segments, so that no version of a node can be checked for it: they are always read.
    """
    return any(requirement.key.kind is Kind.COMMIT for requirement in request.requires)


def _expected(requirement: Exists | Absent) -> int | None:
    return requirement.version if isinstance(requirement, Exists) else None


def _failed(answers: Sequence[Any]) -> int | None:
    """Return the position of the operation that failed, None if none did; the others are rolled back or not tried."""
    for position, answer in enumerate(answers):
        if isinstance(answer, KazooException) and not isinstance(
            answer, RolledBackError | RuntimeInconsistency
        ):
            return position
    return None


def _data_version(answer: Any) -> int:
    """Return the version of a node's data after ``set_data`` (in the answer) or ``create`` (always 0)."""
    return int(answer.version) if hasattr(answer, "version") else 0
