"""When a strike counts, and how the log says how far an epoch is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider.domain.epoch import AttemptEvent, EpochState
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.identifiers import DomainName, JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Stamped, entry_key
from demo.faults import Log, Stage, Strike, committed_at, stage_of

NOON = datetime(2013, 2, 8, 12, tzinfo=UTC)
EPOCH = EpochId(DomainName("nyc"), JobName("scorecards"), Interval(NOON, NOON + timedelta(hours=1)))
OWNER = Owner(dag_id="nyc_scorecards", run_id="backfill")

Entry = tuple[int, EpochState, str]


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def log(entries: Sequence[Entry]) -> Log:
    """Entries a second apart: token, state and sink."""
    found = []
    for second, (token, state, sink) in enumerate(entries):
        record = AttemptEvent(state=state, sink=sink, token=token, participant=0, owner=OWNER)
        found.append(Stamped(entry_key(EPOCH, record), record, second + 1, None, after(second)))
    return found


OPEN = (1, EpochState.OPEN, "")
PROCESSED = (1, EpochState.PROCESSED, "carrier_daily")
WRITTEN = (1, EpochState.WRITTEN, "carrier_daily")
COMPLETE = (1, EpochState.WRITTEN, "")
COMMIT = (1, EpochState.COMMIT, "")


@pytest.mark.parametrize(
    ("entries", "stage"),
    [
        ([], Stage.COMPUTING),
        ([OPEN], Stage.COMPUTING),
        ([OPEN, PROCESSED], Stage.IN_FILES),
        ([OPEN, PROCESSED, WRITTEN], Stage.IN_FILES),
        ([OPEN, PROCESSED, WRITTEN, COMPLETE], Stage.COMPLETE),
        ([OPEN, PROCESSED, WRITTEN, COMPLETE, COMMIT], Stage.OVER),
        ([OPEN, PROCESSED, (1, EpochState.ABORTED, "")], Stage.OVER),
        ([OPEN, PROCESSED, WRITTEN, COMPLETE, (2, EpochState.OPEN, "")], Stage.OVER),
    ],
)
def test_the_log_says_how_far_an_attempt_is(entries: list[Entry], stage: Stage) -> None:
    assert stage_of(log(entries), token=1) is stage


def test_log_of_an_earlier_attempt_does_not_count() -> None:
    entries = [OPEN, PROCESSED, WRITTEN, COMPLETE, (2, EpochState.OPEN, "")]
    assert stage_of(log(entries), token=2) is Stage.COMPUTING


def test_the_first_commit_is_when_it_became_visible() -> None:
    assert committed_at(log([OPEN, COMPLETE])) is None
    assert committed_at(log([OPEN, COMPLETE, COMMIT, (2, EpochState.COMMIT, "")])) == after(2)


def strike(*, complete: float = 0, struck: float = 1, down: float = 2, committed: float | None) -> Strike:
    return Strike(
        job="scorecards",
        interval="2013-02-08",
        what="PostgreSQL ended",
        complete_at=after(complete),
        struck_at=after(struck),
        down_at=after(down),
        repaired_at=after(down + 1.5),
        committed_at=None if committed is None else after(committed),
    )


@pytest.mark.parametrize(
    ("one", "counts"),
    [
        (strike(committed=4), True),
        (strike(committed=0.5), False),
        (strike(committed=1.5), False),
        (strike(committed=2), False),
        (strike(committed=None), False),
        (strike(complete=1.2, committed=4), False),
    ],
    ids=[
        "in publish",
        "committed before",
        "committed while it ended",
        "at its end",
        "never",
        "struck too early",
    ],
)
def test_a_strike_counts_only_if_the_commit_came_after_the_server_was_down(one: Strike, counts: bool) -> None:
    assert one.in_publish is counts
    assert ("was in publish and committed" in str(one)) is counts


def test_a_strike_tells_when_how_long_and_which_epoch() -> None:
    assert str(strike(committed=4)) == (
        "12:00:01.000 UTC: PostgreSQL ended; whole again after 2.5 s; epoch scorecards 2013-02-08 was in publish "
        "and committed at 12:00:04.000"
    )
