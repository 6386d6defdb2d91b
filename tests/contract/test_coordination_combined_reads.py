"""What a reader asks for in combination: times, the whole domain, slower and expired tables, unpublished rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_provider.coordination.reading import resolve
from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.domain.errors import InvalidInput, NotReady, Unavailable
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.read_options import Level
from airflow_provider.domain.session import Session
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.stores.base import pages
from tests.contract.coordination_world import DOMAIN, ORIGIN, World, barrier, day, owner
from tests.contract.interruptions import STORE_CALLS, Interrupted, Interruption

HOUR = timedelta(hours=1)
DIRTY = Level.READ_UNCOMMITTED


def run_days(world: World, name: str, *numbers: int) -> None:
    """Commit days of job *name*, each with its number as the only row."""
    for number in numbers:
        world.run(world.job(name), day(number), [number])


def test_altogether_at_a_time_is_the_earlier_of_both(world: World) -> None:
    """R19: what the whole domain has published limits the time that is asked for, and the other way round."""
    run_days(world, "e", 1, 2)
    run_days(world, "d", 1, 2, 3)
    for asked, found in ((1, 1), (2, 2), (3, 2)):
        cut = world.cuts.cut(DOMAIN, ["d"], at=barrier(asked), consistency="altogether")
        assert cut.barrier == barrier(found)


def test_altogether_waits_for_tables_that_are_registered_while_it_reads(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I8, R19: a reader that stands still once it knows the domain's tables knows those that came since, too."""
    run_days(world, "d", 1)
    held = [1]

    def stands_still(*given: Any, **named: Any) -> Any:
        yield from list(pages(*given, **named))
        if held:
            held.clear()
            run_days(world, "e", 1)
            run_days(world, "d", 2, 3)

    monkeypatch.setattr(resolve, "pages", stands_still)
    assert world.cuts.cut(DOMAIN, ["d"], consistency="altogether").barrier == barrier(1)


def test_a_slower_table_is_not_read_where_it_is_expired(world: World) -> None:
    """R24: its barrier counts, which is an earlier one than the cut's; the cut has what is kept of it."""
    often, full = (
        world.job("d", cadence="0 */12 * * *"),
        world.job("f", [world.table("f", kind=TableKind.FULL)]),
    )
    for number in range(1, 6):
        world.run(often, Interval(ORIGIN + (number - 1) * 12 * HOUR, ORIGIN + number * 12 * HOUR), [number])
    for number in (1, 2):
        world.run(full, day(number), [100 * number])
    world.retention.expire(DOMAIN, "f", barrier(1))
    with pytest.raises(Unavailable, match=f"f: what was there at {barrier(1):%Y-%m-%d}") as gone:
        world.cuts.cut(DOMAIN, ["d", "f"], at=barrier(1.5), align="floor", max_lag=12 * HOUR)
    assert (gone.value.tables, gone.value.kept) == (("f",), (barrier(2),))
    cut = world.cuts.cut(DOMAIN, ["d", "f"], align="floor", max_lag=12 * HOUR)
    assert (cut.barrier, dict(cut.behind)) == (barrier(2.5), {"f": 12 * HOUR})


def test_floor_without_any_lag_is_a_cut_at_one_barrier(world: World) -> None:
    """R19: nothing behind is a limit, too."""
    run_days(world, "d", 1, 2)
    world.run(world.job("f", [world.table("f", kind=TableKind.FULL)]), day(1), [100])
    cut = world.cuts.cut(DOMAIN, ["d", "f"], align="floor", max_lag=timedelta(0))
    assert (cut.barrier, dict(cut.behind)) == (barrier(1), {})


def test_the_states_of_a_cut_are_of_its_csn(world: World) -> None:
    """R3: also when only other tables have moved since the same reader asked before."""
    run_days(world, "d", 1)
    for number in (1, 2):
        cut = world.cut("d")
        assert {cut.csn} == {state.csn for state in cut.states.values()} == {len(world.commits())}
        run_days(world, "e", number)


def test_r20_a_reader_of_an_older_head_takes_no_revision_back(world: World) -> None:
    """R20: of one barrier the commit counts, whether the session has read it or published it itself."""
    job = world.job("d")
    world.run(job, day(1), [1])
    published = world.run(job, day(1), [2], owner("again"))
    barriers = {published.tables[0][0]: barrier(1)}
    for session in (Session.of(DOMAIN).committed(published), Session.of(DOMAIN).after(world.cut("d"))):
        assert session.behind(published.csn, barriers) == ()
        assert [lag.table for lag in session.behind(published.csn - 1, barriers)] == ["d"]


# --- rows that are not published -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "asked"),
    [
        ("at", {"at": barrier(1)}),
        ("align", {"align": "floor", "max_lag": HOUR}),
        ("session", {"session": Session.of(DOMAIN)}),
        ("consistency", {"consistency": "altogether"}),
    ],
)
def test_uncommitted_reads_refuse_a_common_time(world: World, field: str, asked: dict[str, Any]) -> None:
    """R19: tables that need not agree have no common time; a wish is refused, not dropped."""
    run_days(world, "d", 1, 2)
    with pytest.raises(InvalidInput, match="need not agree") as refused:
        world.cuts.cut(DOMAIN, ["d"], level=DIRTY, **asked)
    assert refused.value.field == field
    cut = world.cuts.cut(DOMAIN, ["d"], level=DIRTY, align="exact", consistency="rolling")
    assert cut.barrier == barrier(2)


def test_r21_uncommitted_rows_may_be_too_old(world: World) -> None:
    """R21: by each table's own barrier; what is staged makes it younger."""
    run_days(world, "d", 1)
    run_days(world, "e", 1)
    world.write(world.begin(world.job("d"), day(2)), [2])
    world.clock.advance(datetime(2030, 1, 1, tzinfo=UTC) - world.clock.now())
    age = datetime(2030, 1, 1, tzinfo=UTC) - barrier(1)
    assert set(world.cuts.cut(DOMAIN, ["d", "e"], level=DIRTY, max_staleness=age).states) == {"d", "e"}
    with pytest.raises(NotReady) as refused:
        world.cuts.cut(DOMAIN, ["d", "e"], level=DIRTY, max_staleness=age - HOUR)
    assert {lag.table for lag in refused.value.details["missing"]} >= {"e"}
    assert world.cuts.cut(DOMAIN, ["d"], level=DIRTY, max_staleness=age - HOUR).barrier == barrier(2)


def test_uncommitted_reads_see_an_epoch_that_all_participants_have_written(world: World) -> None:
    """R10: what a part of them has WRITTEN is no output of the epoch yet."""
    job = world.job("d")
    world.run(job, day(1), [1])
    attempt = world.begin(job, day(2), participants=2)
    for number, seen in ((0, [(1, 1)]), (1, [(1, 1), (2, 20), (2, 21)])):
        world.write(world.coordinator.join(attempt, number, owner()), [20 + number])
        assert world.rows("d", level=DIRTY) == {"d": seen}


def test_uncommitted_reads_see_no_output_of_an_attempt_that_ends_meanwhile(world: World) -> None:
    """R4: it ends between the look at who is at work and the look at what they have: its files are deleted."""
    job = world.job("d")
    world.run(job, day(1), [1])
    attempt = world.begin(job, day(2))
    world.write(attempt, [2])
    abort = Interruption(1, lambda: world.coordinator.abort(attempt, "no"), "store.read")
    cuts = Cuts(Interrupted(world.store, "store", STORE_CALLS, abort), world.formats)  # type: ignore[arg-type]
    cut = cuts.cut(DOMAIN, ["d"], level=DIRTY)
    assert "no" in {stamped.record.note for stamped in world.coordinator.barriers(DOMAIN, job.name, day(2))}
    assert world.rows_of(cut) == {"d": [(1, 1)]}
