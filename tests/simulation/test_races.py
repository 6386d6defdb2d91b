"""What the simulation says of a race for the head (R11): exactly what the protocol promises of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider.domain.epoch import AttemptEvent, EpochState
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.identifiers import ChangeSetId, DomainName, JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import event_key, reservation_key
from airflow_provider.domain.reservation import ReservationRecord
from airflow_provider.domain.version import CommitRecord, Member
from airflow_provider.stores.base import Number, Put, Receipt, Transaction
from tests.simulator.history import Violation
from tests.simulator.races import MOST_LOST, Races

DOMAIN = DomainName("cascade")
NOW = datetime(2024, 1, 1, tzinfo=UTC)
HOUR = Interval(NOW, NOW + timedelta(hours=1))


class Onlooker:
    """Tells :class:`Races` what processes do; each process has one job, and one run, of its name."""

    def __init__(self) -> None:
        self.races, self.csn = Races(), 0

    def reserves(self, name: str, token: int = 1, *, ended: bool = False) -> None:
        record = ReservationRecord(token=token, owner=_owner(name), ttl=timedelta(seconds=30), ended=ended)
        self._applied(name, Transaction(domain=DOMAIN, updates=(Put(reservation_key(DOMAIN), record),)))

    def publishes(self, name: str, token: int = 1, *, of: str = "") -> None:
        """:param of: the run whose attempt it publishes, of a job of the same group; by default its own."""
        self.csn += 1
        self._applied(name, _publish(of or name, token))

    def loses(self, name: str, token: int = 1, *, command: int = 0) -> None:
        self.races.refused(_publish(name, token), NOW, _line(name, command))

    def _applied(self, name: str, transaction: Transaction) -> None:
        csn = None if transaction.number is None else self.csn
        self.races.applied(transaction, Receipt(csn=csn, at=NOW, versions={}), _line(name))


def _owner(name: str) -> Owner:
    return Owner(dag_id="dag", run_id=name)


def _line(name: str, command: int = 0) -> Any:
    return SimpleNamespace(process=SimpleNamespace(name=name, commands=command), troubles=0)


def _publish(name: str, token: int) -> Transaction:
    job = JobName(name)
    key = event_key(EpochId(DOMAIN, job, HOUR), token, EpochState.COMMIT)
    log = AttemptEvent(state=EpochState.COMMIT, sink="", token=token, participant=0, owner=_owner(name))
    commit = CommitRecord(
        change_set=ChangeSetId(f"{name}@hour#r1"),
        members=(Member(job=job, interval=HOUR, revision=1),),
        by=str(_owner(name)),
        tables=(),
    )
    return Transaction(domain=DOMAIN, updates=(Put(key, log),), number=Number(commit))


def test_one_commit_goes_before_the_first_reservations() -> None:
    """It had read the head before there was any; every other publisher had lost to it."""
    seen = Onlooker()
    seen.reserves("fails")
    seen.reserves("fails", ended=True)
    seen.reserves("holds")
    seen.publishes("late")
    with pytest.raises(Violation, match="another publishes while the head is reserved"):
        seen.publishes("another")


def test_any_job_of_a_group_publishes_what_the_head_is_reserved_for() -> None:
    """R11, R40: the barrier is published by the attempt of its first job, whichever job's process does it."""
    seen = Onlooker()
    seen.reserves("first", ended=True)
    seen.publishes("first")
    seen.reserves("first")
    seen.publishes("second", of="first")
    with pytest.raises(Violation, match="second publishes while the head is reserved"):
        seen.publishes("second")


def test_none_goes_before_a_reservation_after_that() -> None:
    seen = Onlooker()
    seen.reserves("holds")
    seen.publishes("holds")
    seen.reserves("holds", ended=True)
    seen.reserves("next")
    with pytest.raises(Violation, match="late publishes while the head is reserved"):
        seen.publishes("late")


def test_each_attempt_has_losses_of_its_own() -> None:
    """A person who asks for the same again, after another has begun the epoch meanwhile, is another publisher."""
    seen = Onlooker()
    for token in (4, 6):
        for _ in range(MOST_LOST):
            seen.loses("operator", token)
    with pytest.raises(Violation, match="has lost 3 preparations to others"):
        seen.loses("operator", 6)


def test_each_command_has_losses_of_its_own() -> None:
    """A person's process that publishes again, after a refusal, has lost nothing yet."""
    seen = Onlooker()
    for command in (1, 2):
        for _ in range(MOST_LOST):
            seen.loses("operator", command=command)
    with pytest.raises(Violation, match="has lost 3 preparations to others"):
        seen.loses("operator", command=2)


def test_a_reservation_is_of_the_attempt_that_made_it() -> None:
    seen = Onlooker()
    seen.reserves("operator", 4)
    for _ in range(MOST_LOST):
        seen.loses("operator", 6)
    with pytest.raises(Violation, match="and reserves nothing"):
        seen.loses("operator", 6)
