"""Rollbacks of the cascade: what they have taken back, and what was in the way of one at any time (R30)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from airflow_provider.domain.epoch_id import RevisionId
from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Kind
from airflow_provider.domain.rollback import Rollback
from airflow_provider.stores.base import Delete, Put, Receipt, Transaction
from tests.simulator.cascade import DOMAIN
from tests.simulator.history import moment_of
from tests.simulator.restated import Epoch


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """A rollback. :param since: CSN of the first commit that it has taken back of each table."""

    to: int
    csn: int
    why: str
    epochs: frozenset[Epoch]
    since: Mapping[str, int]


@dataclass(slots=True)
class Rolled:
    """Rollbacks of a domain, and what they depend on.

    :ivar intended: whether there is a person who may roll the domain back. :ivar paused: whether that person has paused
        the DAGs of the domain.
    :ivar made: those that were made. :ivar revisions: the last one of each epoch that was ever committed.
    """

    intended: bool = False
    paused: bool = False
    made: list[Made] = field(default_factory=list)
    revisions: dict[Epoch, int] = field(default_factory=dict)
    _first: dict[Epoch, int] = field(default_factory=dict)
    _commits: defaultdict[Epoch, list[tuple[int, str | None]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _gone: dict[str, int] = field(default_factory=dict)
    _held: defaultdict[Epoch, list[tuple[datetime, datetime]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _change_sets: list[tuple[datetime, frozenset[str]]] = field(default_factory=list)

    # --- what is written ---------------------------------------------------------------------------------------

    def watch(self, transaction: Transaction, receipt: Receipt) -> Rollback | None:
        """Take a transaction that was applied; return the rollback that it has made, if any."""
        made = None
        for update in (change for change in transaction.updates if isinstance(change, Put | Delete)):
            if update.key.kind is Kind.LOCK:
                spans = self._held[str(update.key.partition), moment_of(update.key.item)]
                if spans:
                    spans[-1] = spans[-1][0], min(spans[-1][1], receipt.at)
                if isinstance(update, Put) and not update.record.ended:
                    spans.append((receipt.at, receipt.at + update.record.ttl))
            elif update.key.kind is Kind.TOPOLOGY and isinstance(update, Put):
                self._change_sets.append((receipt.at, frozenset(map(str, update.record.restating))))
                told = update.record.rollbacks[-1:]
                made = next((rollback for rollback in told if rollback.csn == receipt.csn), None)
        return made

    def took(
        self, job: str, interval: Interval, revision: int, csn: int, *, first: bool, by: str | None
    ) -> None:
        """Take a commit of an epoch.

        :param first: it was not committed before, or not since a rollback. :param by: the restatement, if one has.
        """
        place = job, interval.start
        self.revisions[place] = revision
        self._commits[place].append((csn, by))
        if first:
            self._first[place] = csn

    def make(
        self, told: Rollback, gone: Mapping[Epoch, Interval], since: Mapping[str, int], csn: int
    ) -> None:
        """Take a rollback that has taken back the epochs *gone*."""
        self.made.append(Made(to=told.to, csn=csn, why=told.why, epochs=frozenset(gone), since=dict(since)))
        for (job, start), interval in gone.items():
            for number in range(1, self.revisions[job, start] + 1):
                name = RevisionId(DOMAIN, JobName(job), interval, number).change_set
                self._gone.setdefault(name, csn)

    # --- what it says ------------------------------------------------------------------------------------------

    def since(self, to: int, committed: Iterable[Epoch]) -> set[Epoch]:
        """Those of *committed* that were not committed at the CSN *to*, or were taken back since."""
        return {place for place in committed if self._first[place] > to}

    def is_reverted(self, place: Epoch, to: int, reverts: Mapping[str, str | None]) -> bool:
        """Return True if every commit of *place* since *to* is of a restatement that was taken back, or a revert.

        :param reverts: of each restatement, the one that it takes back.
        """
        left = list[str]()
        for csn, by in self._commits[place]:
            if csn <= to:
                continue
            if by is None:
                return False
            if left and reverts[by] == left[-1]:
                left.pop()
            else:
                left.append(by)
        return not left

    def is_gone(self, change_set: str, csn: int) -> bool:
        """Whether what *change_set* has committed was taken back by the CSN *csn*."""
        return self._gone.get(change_set, csn + 1) <= csn

    def by(self, why: str) -> list[Made]:
        """The rollbacks with that reason."""
        return [rollback for rollback in self.made if why in rollback.why]

    def last(self) -> dict[Epoch, int]:
        """The CSN of the last rollback that has taken back each epoch that was ever taken back."""
        return {place: rollback.csn for rollback in self.made for place in rollback.epochs}

    def seen(self, noted: Mapping[str, Iterable[int]], csn: int) -> set[str]:
        """Tables of which a session may have seen rows that were taken back by *csn* (R20).

        :param noted: the CSNs at which it has seen each table.
        """
        return {
            table
            for table, csns in noted.items()
            for rollback in self.made
            if rollback.csn <= csn
            and any(rollback.since.get(table, rollback.csn) <= known < rollback.csn for known in csns)
        }

    # --- what is in the way for a while ------------------------------------------------------------------------

    def was_held(self, place: Epoch, since: datetime, until: datetime) -> bool:
        """Whether an attempt at *place* had a lock at some time of a span."""
        return any(low <= until and high > since for low, high in self._held[place])

    def held(self, since: datetime, until: datetime) -> set[Epoch]:
        """Epochs that had a lock all the time of a span: one after the other of the same attempt, without a gap."""
        found = set()
        for place, spans in self._held.items():
            covered = since
            for low, high in spans:
                if low <= covered < high:
                    covered = high
            if covered > until and any(low < since for low, _ in spans):
                found.add(place)
        return found

    def was_open(self, name: str, since: datetime) -> bool:
        """Whether the restatement or the barrier *name* had not ended at *since*, or at a time after it."""
        return any(name in names for names in self._open_since(since))

    def opened(self, since: datetime) -> set[str]:
        """The change sets that had not ended, all the time since *since*."""
        found = self._open_since(since)
        return set(frozenset.intersection(*found)) if found else set()

    def _open_since(self, since: datetime) -> list[frozenset[str]]:
        earlier = [names for at, names in self._change_sets if at < since]
        return [*earlier[-1:], *(names for at, names in self._change_sets if at >= since)]
