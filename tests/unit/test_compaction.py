"""Which files come together, and which epochs leave a unit: decisions over values (R41)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider.domain.compaction import CompactionUnit, Regrouping, compactions, separations
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.version import HeldFile

DAY = timedelta(days=1)
ORIGIN = datetime(2023, 12, 1, tzinfo=UTC)


def barrier(number: int) -> datetime:
    """The end of the day *number* of January 2024; the 31st ends at the beginning of February."""
    return datetime(2024, 1, 1, tzinfo=UTC) + number * DAY


def file(low: int, high: int | None = None, *, layout: int = 0, obstacle: str = "") -> HeldFile:
    last = low if high is None else high
    return HeldFile(
        uri=f"{low}-{last}",
        low=barrier(low),
        high=barrier(last),
        rows=1,
        size_bytes=1,
        partition="[]",
        layout=layout,
        obstacle=obstacle,
    )


def days(low: datetime, high: datetime) -> Sequence[datetime]:
    return [low + number * DAY for number in range((high - low).days + 1)]


def compacted(
    *files: HeldFile, unit: CompactionUnit = CompactionUnit.MONTH, before: int = 31, after: datetime = ORIGIN
) -> list[Regrouping]:
    return list(compactions(files, unit, after=after, before=barrier(before)))


@pytest.mark.parametrize(
    ("unit", "moment", "start", "end"),
    [
        ("day", "2024-02-01T00:00", "2024-01-31", "2024-02-01"),
        ("day", "2024-02-01T00:01", "2024-02-01", "2024-02-02"),
        ("month", "2024-03-01T00:00", "2024-02-01", "2024-03-01"),
        ("month", "2024-01-31T23:59", "2024-01-01", "2024-02-01"),
        ("month", "2024-12-31T00:00", "2024-12-01", "2025-01-01"),
        ("year", "2025-01-01T00:00", "2024-01-01", "2025-01-01"),
        ("year", "2023-01-01T00:01", "2023-01-01", "2024-01-01"),
    ],
)
def test_an_epoch_is_of_the_unit_in_which_it_ends(unit: str, moment: str, start: str, end: str) -> None:
    """R41: midnight belongs to the unit before it."""
    found = CompactionUnit(unit).around(datetime.fromisoformat(f"{moment}+00:00"))
    assert found == Interval(*(datetime.fromisoformat(f"{text}T00:00+00:00") for text in (start, end)))


@given(st.sampled_from(CompactionUnit), st.datetimes(datetime(1900, 1, 2), datetime(2200, 1, 1)))  # noqa: DTZ001
def test_each_moment_is_in_its_unit(unit: CompactionUnit, moment: datetime) -> None:
    """R41: units lie side by side."""
    found = unit.around(moment.replace(tzinfo=UTC))
    assert found.start < moment.replace(tzinfo=UTC) <= found.end
    assert unit.around(found.start).end == found.start


def test_whole_units_with_several_files_come_together() -> None:
    """R41: not what is in one file, has not ended, is not readable yet, or has one epoch."""
    (found,) = compacted(file(-1), file(3), file(5), file(31), file(32), file(33))
    assert [kept.uri for kept in found.files] == ["3-3", "5-5", "31-31"]
    assert found.groups == ((barrier(3), barrier(31)),)
    assert not found.obstacle
    assert compacted(file(3), file(5), before=30) == []
    assert compacted(file(3, 31), file(32)) == []
    assert compacted(file(3), file(3)) == []
    (found,) = compacted(file(3), file(4), file(5), after=barrier(3))
    assert [kept.uri for kept in found.files] == ["4-4", "5-5"]
    (found,) = compacted(file(1, 3), file(4), file(5, 9))
    assert found.groups == ((barrier(1), barrier(9)),)


def test_epochs_within_a_larger_unit_are_left() -> None:
    """R41: no file comes between those of a unit."""
    assert compacted(file(-20, 40), file(3), file(5), before=60) == []
    assert len(compacted(file(-20, -10), file(3), file(5), before=60)) == 1


@pytest.mark.parametrize("odd", [file(4, layout=1), file(4, obstacle="files of others")])
def test_what_cannot_come_together_says_why(odd: HeldFile) -> None:
    """R41: it is left as it is."""
    (found,) = compacted(file(3), odd)
    assert found.obstacle


def test_epochs_leave_a_unit_alone_or_in_runs() -> None:
    """R41: each epoch that is asked for by itself, and those between them together."""
    (found,) = separations([file(1, 9), file(11)], [barrier(4), barrier(9), barrier(11)], days)
    assert found.groups == (
        (barrier(1), barrier(3)),
        (barrier(4), barrier(4)),
        (barrier(5), barrier(8)),
        (barrier(9), barrier(9)),
    )
    assert list(separations([file(1, 9), file(11)], [barrier(11)], days)) == []
    (found,) = separations([file(1, 3)], None, days)
    assert found.groups == tuple((barrier(number), barrier(number)) for number in (1, 2, 3))


def test_files_beside_a_unit_go_with_it() -> None:
    """R17, R41: rows of another program that were adopted into an epoch of a unit."""
    (found,) = separations([file(1, 9), file(4), file(12)], [barrier(4)], days)
    assert [kept.uri for kept in found.files] == ["1-9", "4-4"]


@pytest.mark.parametrize("odd", [file(4, layout=1), file(4, obstacle="files of others")])
def test_what_cannot_go_with_a_unit_stays_beside_it(odd: HeldFile) -> None:
    """R17, R41: it keeps no epoch of the unit from being computed again."""
    (found,) = separations([file(1, 9), odd], [barrier(4)], days)
    assert ([kept.uri for kept in found.files], found.beside, found.obstacle) == (["1-9"], (odd,), "")


@pytest.mark.parametrize(
    ("since", "before", "spans"),
    [(None, None, ["1-9", "20-25"]), (9, None, ["20-25"]), (8, 19, ["1-9"]), (None, 19, ["1-9"])],
)
def test_units_of_a_time_are_taken_apart(since: int | None, before: int | None, spans: list[str]) -> None:
    """R41: those that have an epoch in it."""
    found = separations(
        [file(1, 9), file(20, 25)],
        None,
        days,
        since=None if since is None else barrier(since),
        before=None if before is None else barrier(before),
    )
    assert [kept.uri for regrouping in found for kept in regrouping.files] == spans
