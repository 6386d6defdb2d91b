"""How reads are judged and counted, on small tables whose totals are plain to see."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pytest

from demo import figures, phase
from demo.__main__ import main
from demo.measures import measure
from demo.published import count_cuts
from demo.readers import twin
from demo.readers.reading import FAILED, RIGHT, WRONG, ReaderSettings, ReadLog, Seen, compare
from demo.run import aim_of
from demo.source import BLIZZARD, WEEK, Days, Row, midnight
from demo.stack import Plan
from demo.totals import TABLES, SourceTotals
from demo.warehouses import WAREHOUSES

FIRST, SECOND = date(2013, 2, 8), date(2013, 2, 9)
DAY = timedelta(days=1)
DAYS = Days(first=FIRST, count=2)
NOON = {day: datetime(day.year, day.month, day.day, 12, tzinfo=UTC) for day in DAYS}
FLIGHTS = {FIRST: 3, SECOND: 5}


def totals() -> SourceTotals:
    """Every flight is cancelled, 10 miles long and has clear weather; one weather report a day."""
    return totals_of(FLIGHTS)


def totals_of(flights: dict[date, int]) -> SourceTotals:
    return SourceTotals(
        {
            midnight(day) + timedelta(hours=12): {
                "reports": 1,
                "flights": count,
                "cancelled": count,
                "distance": 10 * count,
            }
            for day, count in flights.items()
        }
    )


def tables(*, delay_to: date, report_to: date) -> dict[str, pa.Table]:
    """All dated tables have both days; the two tables to date stand where they are told to."""
    days = [day.isoformat() for day in DAYS]
    counts = list(FLIGHTS.values())
    scorecard = pa.table(
        {"day": days, "flights": counts, "cancelled": counts, "distance": [10 * count for count in counts]}
    )
    single = [day.isoformat() for day, count in FLIGHTS.items() for _ in range(count)]
    to_date = {FIRST: 3, SECOND: 8}
    report = {f"{name}_by_{way}": [to_date[report_to]] for name in ("flights", "cancelled") for way in WAYS}
    return {
        "weather": pa.table({"day": days, "visibility_mi": [10.0, None]}),
        "flights": pa.table(
            {"day": single, "cancelled": [True] * len(single), "distance_mi": [10] * len(single)}
        ),
        "carrier_daily": scorecard,
        "route_daily": scorecard,
        "delay_by_weather": pa.table(
            {
                "visibility": ["clear"],
                "flights": [to_date[delay_to]],
                "cancelled": [to_date[delay_to]],
                "distance": [10 * to_date[delay_to]],
            }
        ),
        "daily_report": pa.table(report),
    }


def more_tables() -> dict[str, pa.Table]:
    """Those that the twin has not."""
    counted = pa.table({"flights": [8], "cancelled": [8], "distance": [80]})
    weather = {"reports": [2], "low_visibility_reports": [0]}
    week = pa.table({**counted.to_pydict(), **weather})
    return {"carrier_to_date": counted, "carrier_three_days": counted, "airport_weekly": week}


WAYS = ("carrier", "route", "weather")


@pytest.mark.parametrize("day", [FIRST, SECOND])
def test_twin_is_right_at_any_day_that_fits(day: date) -> None:
    seen = twin.judge(tables(delay_to=day, report_to=day), totals(), DAYS)
    assert seen.wrong == {}
    assert (seen.barrier - NOON[day]).total_seconds() == 12 * 3600


def test_twin_is_wrong_when_no_day_fits() -> None:
    seen = twin.judge(tables(delay_to=SECOND, report_to=FIRST), totals(), DAYS)
    assert set(seen.wrong) == {"daily_report"}
    assert seen.wrong["daily_report"]["flights_by_carrier"] == (3, 8)


def test_measures_cover_the_promises_of_each_table() -> None:
    rows = tables(delay_to=FIRST, report_to=FIRST) | more_tables()
    assert {table: tuple(measure(table, rows[table])) for table in TABLES} == TABLES


def test_tables_without_a_difference_are_those_of_the_source() -> None:
    rows = tables(delay_to=SECOND, report_to=SECOND) | more_tables()
    found = {table: measure(table, rows[table]) for table in TABLES}
    assert compare(found, totals(), midnight(SECOND + DAY)) == {}


def test_each_table_has_its_own_span_before_a_barrier() -> None:
    """One flight on the first of ten days, two on the second, four on the third and so on."""
    flights = {SECOND - (9 - number) * DAY: 2**number for number in range(10)}
    expected = totals_of(flights).up_to(midnight(SECOND + DAY))
    found = {table: measures["flights"] for table, measures in expected.items() if "flights" in measures}
    everything, three_days, week = 2**10 - 1, 2**9 + 2**8 + 2**7, 2**10 - 2**3
    short = {"carrier_three_days": three_days, "airport_weekly": week}
    assert found == {table: short.get(table, everything) for table in found}
    assert expected["weather"]["reports"] == 10
    assert expected["airport_weekly"]["reports"] == 7


def test_a_table_that_is_behind_is_judged_where_it_stands() -> None:
    rows = tables(delay_to=SECOND, report_to=FIRST)
    found = {table: measure(table, rows[table]) for table in ("daily_report", "delay_by_weather")}
    at = midnight(SECOND + DAY)
    assert set(compare(found, totals(), at)) == {"daily_report"}
    assert compare(found, totals(), at, behind={"daily_report": DAY}) == {}
    assert set(compare(found, totals(), at, behind=dict.fromkeys(found, DAY))) == {"delay_by_weather"}


def test_a_difference_of_one_row_is_seen() -> None:
    expected = totals().up_to(NOON[SECOND])
    assert expected["flights"] == {"flights": 3, "cancelled": 3, "distance": 30}
    seen = {"flights": {**expected["flights"], "flights": 4}}
    assert compare(seen, totals(), NOON[SECOND]) == {"flights": {"flights": (4, 3)}}


def test_totals_survive_their_file(tmp_path: Path) -> None:
    totals().save(tmp_path / "totals.json")
    assert SourceTotals.load(tmp_path / "totals.json").up_to(NOON[SECOND]) == totals().up_to(NOON[SECOND])


@pytest.fixture
def log(tmp_path: Path) -> ReadLog:
    settings = ReaderSettings(days=DAYS, totals=tmp_path, reads=tmp_path / "reads", warehouse=str(tmp_path))
    return ReadLog(settings, family="twin", reader="adhoc-1")


def failing(times: int, error: Exception) -> Callable[[], Seen]:
    left = [error] * times

    def read() -> Seen:
        if left:
            raise left.pop()
        return Seen(barrier=NOON[FIRST], tables=6, csn=7)

    return read


def test_a_read_that_works_when_tried_again_is_right(log: ReadLog) -> None:
    done = log.perform(failing(1, FileNotFoundError("gone")), is_retryable=twin.is_retryable)
    assert (done.outcome, done.tries) == (RIGHT, 2)


def test_an_error_that_stays_is_a_failed_read(log: ReadLog) -> None:
    error = FileNotFoundError("gone")
    done = log.perform(failing(9, error), is_retryable=twin.is_retryable, retry_for_s=0.6)
    assert (done.outcome, done.tries, done.error) == (FAILED, 2, "FileNotFoundError: gone")


def test_an_error_that_allows_no_retry_is_a_failed_read(log: ReadLog) -> None:
    done = log.perform(failing(1, ZeroDivisionError()), is_retryable=twin.is_retryable)
    assert (done.outcome, done.tries) == (FAILED, 1)


def test_reads_are_counted_by_outcome_reader_and_cut(log: ReadLog, tmp_path: Path) -> None:
    for _ in range(2):
        log.perform(failing(0, OSError()), is_retryable=twin.is_retryable)
    wrong = Seen(barrier=NOON[FIRST], tables=9, wrong={"flights": {"flights": (4, 3)}})
    log.perform(lambda: wrong, is_retryable=bool)
    counts = figures.count_reads(tmp_path / "reads", "twin")
    assert (counts.reads, counts.bad, counts.cuts) == (3, 1, 1)
    assert counts.outcomes == {RIGHT: 2, WRONG: 1}
    assert figures.cut_figures(counts, counts) == {
        "demo.epochs.cuts": 1,
        "demo.epochs.tables": 9,
        "demo.epochs.reads_of_all": 1,
        "demo.epochs.reads_by_catalog": 0,
        "demo.words.cuts": 1,
    }
    assert counts.by_reader == {"adhoc-1": (3, 1)}
    assert figures.describe_example(counts) == ["flights.flights: read 4, the source says 3"]


KEPT = {
    "demo.epochs.reads": 500,
    "demo.epochs.inconsistent": 0,
    "demo.epochs.failed": 0,
    "demo.epochs.cuts": 60,
    "demo.epochs.cuts_there": 150,
    "demo.epochs.tables": 9,
    "demo.epochs.reads_of_all": 100,
    "demo.epochs.reads_by_catalog": 40,
    "demo.words.reads": 80,
    "demo.words.inconsistent": 0,
    "demo.words.failed": 0,
    "demo.words.cuts": 8,
    "demo.waits.deferred": 7,
    "demo.restate.epochs": 20,
    "demo.restate.swaps": 2,
    "demo.restate.reads": 75,
    "demo.restate.inconsistent": 0,
    "demo.restate.failed": 0,
    "demo.twin.reads": 500,
    "demo.twin.inconsistent": 1,
    "demo.twin.restate.inconsistent": 1,
    "demo.faults": 2,
}


def test_kept_promises_break_nothing() -> None:
    assert figures.broken_promises(KEPT, days=8, twin_days=2, faults=2) == []


def test_parts_that_did_not_run_break_no_promise() -> None:
    with_epochs = {name: value for name, value in KEPT.items() if "twin" not in name and "faults" not in name}
    assert figures.broken_promises(with_epochs, days=8, twin_days=0) == []


def test_a_run_without_a_correction_breaks_its_promises() -> None:
    """A run with epochs has failed: nothing was corrected."""
    without = {name: value for name, value in KEPT.items() if "restate" not in name}
    broken = figures.broken_promises(without, days=8, twin_days=2, faults=2)
    assert [line.split()[0] for line in broken] == [
        "demo.restate.epochs",
        "demo.restate.swaps",
        "demo.restate.reads",
        "demo.twin.restate.inconsistent",
    ]


@pytest.mark.parametrize("name", sorted(set(KEPT) - {"demo.epochs.cuts_there"}))
def test_each_promise_can_break(name: str) -> None:
    worse = {**KEPT, name: 1 if KEPT[name] == 0 else KEPT[name] - 1}
    broken = figures.broken_promises(worse, days=8, twin_days=2, faults=2)
    assert [line.split()[0] for line in broken] == [name]


def test_half_of_the_cuts_that_were_there_is_enough_on_a_fast_machine() -> None:
    """And what is there has a bound of its own: the ends of all days."""
    few = {**KEPT, "demo.epochs.cuts_there": 80, "demo.epochs.cuts": 40}
    assert figures.broken_promises(few, days=8, twin_days=2) == []
    assert figures.broken_promises({**few, "demo.epochs.cuts": 39}, days=8, twin_days=2) == [
        "demo.epochs.cuts is 39, promised at least 40"
    ]
    none_there = {**few, "demo.epochs.cuts_there": 7}
    assert figures.broken_promises(none_there, days=8, twin_days=2) == [
        "demo.epochs.cuts_there is 7, promised at least 8"
    ]


def test_cuts_that_could_be_read_are_counted_by_commits_and_days() -> None:
    """Two jobs a day and one a week: nothing can be read before both have a day, and a gap hides what comes after."""
    first, second = (midnight(SECOND + number * DAY) for number in (0, 1))
    both = [{("a", first)}, {("b", second)}, {("b", first)}, {("week", second)}, {("a", second)}]
    count = partial(count_cuts, days=[first, second], a_day=2, besides=["week"])
    assert [count(both[:number]) for number in range(6)] == [0, 0, 0, 1, 2, 4]
    assert count([*both, {("a", first)}]) == 6  # computed again


def counted(reads: int, cuts: int, of_all: int = 0, by_catalog: int = 0) -> figures.ReadCounts:
    return figures.ReadCounts(
        outcomes=Counter({RIGHT: reads}),
        cuts=cuts,
        by_tables=Counter({len(TABLES): of_all, 6: reads - of_all}),
        by_reader={figures.BY_CATALOG: (by_catalog, 0)},
        retried=0,
        example={},
        example_barrier=None,
    )


@pytest.mark.parametrize("days", [1, 2, 8])
@pytest.mark.parametrize("pace", sorted({warehouse.pace for warehouse in WAREHOUSES.values()}))
def test_half_goes_on_until_its_promised_reads_were_made(days: int, pace: float) -> None:
    """Each bound that more reads at the end can reach is one that they are made for, on each warehouse."""
    least = figures.least_of(days, pace=pace)
    for family, bounds in least.items():
        enough = counted(bounds.reads, bounds.cuts, bounds.of_all, bounds.by_catalog)
        assert bounds.reached(enough), family
        assert not bounds.reached(replace(enough, outcomes=Counter({RIGHT: bounds.reads - 1}))), family
    books, whole = least["words"], least["epochs"]
    assert not books.reached(counted(books.reads, books.cuts - 1))
    assert not whole.reached(counted(whole.reads, 1, whole.of_all - 1, whole.by_catalog))
    assert not whole.reached(counted(whole.reads, 1, whole.of_all, whole.by_catalog - 1))
    assert whole.by_catalog > 0
    read = {**KEPT, "demo.epochs.reads": whole.reads, "demo.epochs.reads_of_all": whole.of_all}
    read |= {
        "demo.epochs.reads_by_catalog": whole.by_catalog,
        "demo.words.reads": books.reads,
        "demo.words.cuts": books.cuts,
    }
    read |= {"demo.twin.reads": least["twin"].reads}
    assert figures.broken_promises(read, days=days, twin_days=days, pace=pace) == []


def test_every_familys_readers_are_read_on_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs are over, the own family has read enough, and the word tables' reader reaches its cuts in time."""
    own = ReaderSettings(days=DAYS, totals=tmp_path, reads=tmp_path, warehouse=str(tmp_path))
    logs = {family: ReadLog(own, family=family, reader="adhoc-1") for family in ("epochs", "words")}
    logs["epochs"].perform(failing(0, OSError()), is_retryable=bool)
    waits = []

    def read_words(seconds: float) -> None:
        waits.append(seconds)
        seen = Seen(barrier=NOON[FIRST], tables=3, csn=len(waits))
        logs["words"].perform(lambda: seen, is_retryable=bool)

    monkeypatch.setattr(phase, "time", Mock(sleep=read_words, monotonic=lambda: 0.0))
    half = phase.Phase(
        stack=Mock(reads=tmp_path),
        pipeline=Mock(family="epochs", beside={"words": 1.0}),
        progress=Mock(),
        least={"epochs": figures.Least(reads=1), "words": figures.Least(reads=2, cuts=4)},
        readers=1,
    )
    half._read_on({})
    assert figures.count_reads(tmp_path, "words").cuts == len(waits) == 4


@pytest.mark.parametrize(("days", "budget"), [(1, 180), (2, 960), (8, 960)])
def test_a_time_above_its_budget_is_named(days: int, budget: int) -> None:
    """A demo of one day has less time than a longer one, which corrects days, too."""
    times = {"demo.seconds": float(budget), "demo.first_publish_seconds": 60.0}
    assert figures.over_budget(times, days=days) == []
    assert figures.over_budget({**times, "demo.seconds": budget + 1.0}, days=days) == [
        f"demo.seconds is {budget + 1}, above its budget of {budget} on 2 quiet cores: no promise is broken by it"
    ]


def test_a_slower_warehouse_has_more_time() -> None:
    times = {"demo.seconds": 720.0, "demo.first_publish_seconds": 240.0}
    assert figures.over_budget(times, days=1, pace=0.25) == []
    slower = {name: seconds + 1 for name, seconds in times.items()}
    assert len(figures.over_budget(slower, days=1, pace=0.25)) == len(figures.over_budget(times, days=1)) == 2


@pytest.mark.parametrize(("twin_days", "columns"), [(2, 3), (0, 2)])
def test_the_table_has_a_column_for_each_half_that_ran(
    log: ReadLog, tmp_path: Path, twin_days: int, columns: int
) -> None:
    log.perform(failing(0, OSError()), is_retryable=bool)
    counts = figures.count_reads(tmp_path / "reads", "twin")
    facts = [("days computed", 8, twin_days or None)]
    table = figures.side_by_side(counts, counts if twin_days else None, facts)
    cells = [list(column.cells) for column in table.columns]
    assert [cell[0] for cell in cells] == ["days computed", "8", "2"][:columns]
    assert {len(cell) for cell in cells} == {10}


def test_a_file_has_no_server_that_could_be_broken(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--home", str(tmp_path / "demo"), "run", "--store", "sqlite", "--fault"])
    assert "sqlite has no server that could be broken; choose another --store" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("argument", ["--store", "--warehouse"])
def test_an_unknown_place_is_refused_before_anything_starts(
    argument: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--home", str(tmp_path / "demo"), "run", argument, "ftp"])
    assert f"argument {argument}: invalid choice: 'ftp' (choose from" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()


def test_faults_wait_for_a_counted_read_with_the_package(tmp_path: Path) -> None:
    settings = ReaderSettings(days=DAYS, totals=tmp_path, reads=tmp_path, warehouse=str(tmp_path))
    ready = aim_of(Plan(days=2), reads=tmp_path).ready
    for family in ("twin", "epochs"):
        assert not ready()
        ReadLog(settings, family=family, reader="adhoc-1").perform(failing(0, OSError()), is_retryable=bool)
    assert ready()


def test_a_single_day_is_struck_before_there_is_anything_to_read(tmp_path: Path) -> None:
    assert aim_of(Plan(days=1), reads=tmp_path).ready()


def test_a_plan_is_kept_for_the_next_start(tmp_path: Path) -> None:
    plan = Plan(days=2, twin_days=0, port=8081, store="postgresql", warehouse="s3")
    plan.save(tmp_path)
    assert Plan.load(tmp_path) == plan
    assert plan.twin is None
    assert Plan.load(tmp_path / "elsewhere") == Plan()


def test_flight_without_departure_is_cancelled() -> None:
    from demo import source

    flown: Row = {"dep_time": "517"}
    assert [source.cancelled({"dep_time": text}) for text in ("NA", "", flown["dep_time"])] == [
        True,
        True,
        False,
    ]


def test_a_demo_without_days_is_refused() -> None:
    with pytest.raises(ValueError, match="count is 0, expected at least 1"):
        Days(first=FIRST, count=0)


def test_the_days_end_with_a_week_and_with_the_blizzard() -> None:
    one, two, whole = (Days.through_blizzard(count) for count in (1, 2, Plan().days))
    assert list(two) == [BLIZZARD, BLIZZARD + DAY]
    assert list(one) == [two.last]
    assert whole.last_of_weeks == (whole.first, whole.last)
    assert midnight(whole.last) - midnight(whole.first) == WEEK
    assert one.last_of_weeks == (one.last,)


def test_a_read_is_one_line_of_json(log: ReadLog, tmp_path: Path) -> None:
    log.perform(failing(0, OSError()), is_retryable=bool)
    (line,) = (tmp_path / "reads" / "twin-adhoc-1.jsonl").read_text().splitlines()
    assert json.loads(line)["csn"] == 7
