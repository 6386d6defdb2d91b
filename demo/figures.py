"""What a run showed: counts from the readers' logs, the table at the end, and whether the promises were kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from demo.readers.reading import FAILED, RIGHT, WRONG, Differences
from demo.totals import TABLES

Figures = dict[str, float]
"""Values by the names that are printed as ``figure NAME VALUE``."""

LEAST_READS = 500
LEAST_CUTS = 60
LEAST_WAITS = 7
LEAST_OF_ALL = 100
LEAST_BY_CATALOG = 40
LEAST_WORD_READS = 80
LEAST_WORD_CUTS = 8
WHOLE_DEMO_DAYS = 8
"""Lower bounds are those of the whole demo; a shorter one is held to its share."""

BY_CATALOG = "catalog"
"""Name of the reader, of the family ``epochs``, that reads by the REST catalog."""

WITH_CUTS = ("epochs", "words")
"""The families that read with the package."""

BUDGET_S = 960
SHORT_DAYS, SHORT_BUDGET_S = 1, 180
"""A demo of one day corrects none."""
FIRST_PUBLISH_BUDGET_S = 60

PART_OF_CUTS = 0.5
"""Of the different cuts that were there to be read: on a fast machine there are fewer reads between two commits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadCounts:
    """Counts over one family's readers.

    :param outcomes: reads by outcome.
    :param cuts: distinct (barrier, CSN) that were read.
    :param by_tables: reads by the number of tables that they compared.
    :param by_reader: reads and wrong or failed reads by the reader's name.
    :param retried: reads that needed more than one try.
    :param example: of the wrong read with the most tables that differ: what was seen and expected.
    :param example_barrier: the barrier it was judged at.
    """

    outcomes: Counter[str]
    cuts: int
    by_tables: Counter[int]
    by_reader: dict[str, tuple[int, int]]
    retried: int
    example: Differences
    example_barrier: str | None

    @property
    def reads(self) -> int:
        """All counted reads."""
        return self.outcomes.total()

    @property
    def by_catalog(self) -> int:
        """Those by the REST catalog."""
        return self.by_reader.get(BY_CATALOG, (0, 0))[0]

    @property
    def bad(self) -> int:
        """Reads that were wrong or failed."""
        return self.outcomes[WRONG] + self.outcomes[FAILED]


@dataclass(frozen=True, kw_only=True, slots=True)
class Least:
    """What a family's readers must have read when its half ends; a fast machine's readers go on for it.

    :param reads: all of them.
    :param of_all: those that compared all tables of New York.
    :param by_catalog: those by the REST catalog.
    :param cuts: different ones, of those that can be read at the end, too.
    """

    reads: int
    of_all: int = 0
    by_catalog: int = 0
    cuts: int = 0

    def reached(self, counts: ReadCounts) -> bool:
        """Whether so much has been read."""
        return (
            counts.reads >= self.reads
            and counts.by_tables[len(TABLES)] >= self.of_all
            and counts.by_catalog >= self.by_catalog
            and counts.cuts >= self.cuts
        )


def least_of(days: int, *, pace: float = 1.0) -> dict[str, Least]:
    """What a demo of some days promises to read, by the readers' family.

    :param days: that it computes with the package.
    :param pace: of its warehouse: so many reads of those that a folder allows in the same time.
    """
    share = min(1.0, days / WHOLE_DEMO_DAYS)
    reads = int(LEAST_READS * share * pace)
    return {
        # A week ends with the first day of the whole demo and with the last of any.
        "epochs": Least(
            reads=reads,
            of_all=int(LEAST_OF_ALL * pace) if share == 1 else 1,
            by_catalog=max(1, int(LEAST_BY_CATALOG * share * pace)),
        ),
        # Each book's end is a cut that can be read as soon as the last book is there.
        "words": Least(reads=int(LEAST_WORD_READS * share * pace), cuts=LEAST_WORD_CUTS),
        "twin": Least(reads=reads),
    }


def count_reads(folder: Path, family: str) -> ReadCounts:
    """Count what one family's readers have written so far.

    :param folder: of the readers' logs.
    :param family: ``epochs``, ``words`` or ``twin``.
    """
    outcomes: Counter[str] = Counter()
    cuts: set[tuple[str, int]] = set()
    by_tables: Counter[int] = Counter()
    by_reader: dict[str, tuple[int, int]] = {}
    retried, example, example_barrier = 0, Differences(), None
    for path in sorted(folder.glob(f"{family}-*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            read = json.loads(line)
            outcome = read["outcome"]
            outcomes[outcome] += 1
            by_tables[read["tables"]] += 1
            seen, bad = by_reader.get(read["reader"], (0, 0))
            by_reader[read["reader"]] = (seen + 1, bad + (outcome != RIGHT))
            retried += read["tries"] > 1
            if read["csn"] is not None:
                cuts.add((read["barrier"], read["csn"]))
            if len(read["wrong"]) > len(example):
                example, example_barrier = read["wrong"], read["barrier"]
    return ReadCounts(
        outcomes=outcomes,
        cuts=len(cuts),
        by_tables=by_tables,
        by_reader=by_reader,
        retried=retried,
        example=example,
        example_barrier=example_barrier,
    )


def reading_figures(family: str, counts: ReadCounts) -> Figures:
    """Name a family's counts of reads."""
    return {
        f"demo.{family}.reads": counts.reads,
        f"demo.{family}.inconsistent": counts.outcomes[WRONG],
        f"demo.{family}.failed": counts.outcomes[FAILED],
    }


def cut_figures(epochs: ReadCounts, words: ReadCounts) -> Figures:
    """Name what only readers with cuts promise: different cuts, and reads of all tables at once, and by the catalog."""
    return {
        "demo.epochs.cuts": epochs.cuts,
        "demo.epochs.tables": max(epochs.by_tables, default=0),
        "demo.epochs.reads_of_all": epochs.by_tables[len(TABLES)],
        "demo.epochs.reads_by_catalog": epochs.by_catalog,
        "demo.words.cuts": words.cuts,
    }


def broken_promises(
    figures: Figures, *, days: int, twin_days: int, faults: int = 0, pace: float = 1.0
) -> list[str]:
    """Say which promises a run did not keep; none is an empty list.

    :param figures: of the run.
    :param days: that it computed with the package.
    :param twin_days: that it computed without; 0 when the twin did not run.
    :param faults: times that the store's server was to be broken while an epoch was in publish.
    :param pace: of its warehouse, as for :func:`least_of`.
    """
    families = least_of(days, pace=pace)
    # The first day has one barrier; later ones add barriers, and commits at which each of them can be read.
    later_share = min(1.0, (days - 1) / (WHOLE_DEMO_DAYS - 1))
    there = figures["demo.epochs.cuts_there"]
    least = {
        "demo.epochs.reads": families["epochs"].reads,
        # The last commit of all leaves each day's end to be read.
        "demo.epochs.cuts_there": days,
        "demo.epochs.cuts": max(1, int(pace * min(LEAST_CUTS * later_share**2, PART_OF_CUTS * there))),
        "demo.epochs.tables": len(TABLES),
        "demo.epochs.reads_of_all": families["epochs"].of_all,
        "demo.epochs.reads_by_catalog": families["epochs"].by_catalog,
        "demo.words.reads": families["words"].reads,
        "demo.words.cuts": families["words"].cuts,
        "demo.waits.deferred": max(1, int(LEAST_WAITS * min(1.0, days / WHOLE_DEMO_DAYS))),
        "demo.twin.reads": families["twin"].reads,
        "demo.twin.inconsistent": 1,
        "demo.faults": faults,
    }
    if not faults:
        del least["demo.faults"]
    if days > 1:
        # Of the whole demo two days, all days of the tables to date from them on, and the week.
        least |= {
            "demo.restate.epochs": min(20, 5 * days - 1),
            "demo.restate.swaps": 2,
            "demo.restate.reads": 75,
        }
    if not twin_days:
        del least["demo.twin.reads"]
    if twin_days <= 1:
        # With one day there is no earlier state that a reader could mix with.
        del least["demo.twin.inconsistent"]
    if days > 1 and twin_days > 1:
        least["demo.twin.restate.inconsistent"] = 1
    # After a failed run there is no correction, and no figure of it.
    broken = [
        f"{name} is {figures.get(name, 0):g}, promised at least {bound}"
        for name, bound in least.items()
        if figures.get(name, 0) < bound
    ]
    families_of_cuts = (*WITH_CUTS, "restate") if days > 1 else WITH_CUTS
    nothing = [f"demo.{family}.{what}" for family in families_of_cuts for what in ("inconsistent", "failed")]
    broken += [f"{name} is {figures[name]:g}, promised 0" for name in nothing if figures.get(name)]
    return broken


def budgets_s(days: int, *, pace: float = 1.0) -> dict[str, int]:
    """Return the seconds that a demo of *days* days should take on two cores, by the name of the figure.

    :param pace: of its warehouse, as for :func:`least_of`.
    """
    whole = SHORT_BUDGET_S if days <= SHORT_DAYS else BUDGET_S
    return {
        "demo.seconds": round(whole / pace),
        "demo.first_publish_seconds": round(FIRST_PUBLISH_BUDGET_S / pace),
    }


def over_budget(figures: Figures, *, days: int, pace: float = 1.0) -> list[str]:
    """List the times above their budgets; a busy machine is no broken promise."""
    budgets = budgets_s(days, pace=pace)
    return [
        f"{name} is {figures[name]:g}, above its budget of {budget} on 2 quiet cores: no promise is broken by it"
        for name, budget in budgets.items()
        if figures[name] > budget
    ]


def side_by_side(
    epochs: ReadCounts, twin: ReadCounts | None, facts: Sequence[tuple[str, int, int | None]]
) -> Table:
    """Make the table that ends a demo.

    :param twin: None when the twin did not run.
    :param facts: further rows: what it is, with epochs, without.
    """
    table = Table(title="The same source, the same readers", title_justify="left")
    table.add_column("")
    table.add_column("with epochs", justify="right")
    columns = [epochs]
    if twin is not None:
        table.add_column("plain Airflow and Spark", justify="right")
        columns.append(twin)
    for what, *values in facts:
        table.add_row(what, *map(str, values[: len(columns)]))
    table.add_row("tables", *(str(max(counts.by_tables, default=0)) for counts in columns))
    table.add_row("reads", *(str(counts.reads) for counts in columns))
    table.add_row("wrong totals", *(_share(counts, WRONG) for counts in columns))
    table.add_row("failed after retries", *(_share(counts, FAILED) for counts in columns))
    table.add_row("needed a retry", *(str(counts.retried) for counts in columns))
    table.add_row("distinct cuts read", *(str(epochs.cuts), "no cuts")[: len(columns)])
    table.add_row("of these, ad-hoc", *(_bad_of(counts, _is_ad_hoc) for counts in columns))
    by_catalog = _bad_of(epochs, lambda reader: reader == BY_CATALOG)
    table.add_row("of these, by the REST catalog", *(by_catalog, "no catalog")[: len(columns)])
    table.add_row(
        "of these, by the waiting DAG",
        *(_bad_of(counts, lambda reader: reader == "dag") for counts in columns),
    )
    return table


def describe_example(counts: ReadCounts) -> list[str]:
    """Say what a wrong read saw, a line a number."""
    lines = []
    for table, measures in counts.example.items():
        for measure, (seen, expected) in measures.items():
            lines.append(f"{table}.{measure}: read {seen}, the source says {expected}")
    return lines


def _share(counts: ReadCounts, outcome: str) -> str:
    number = counts.outcomes[outcome]
    return f"{number} ({number / counts.reads:.1%})" if counts.reads else "no reads"


def _is_ad_hoc(reader: str) -> bool:
    return reader.startswith("adhoc-")


def _bad_of(counts: ReadCounts, counts_in: Callable[[str], bool]) -> str:
    chosen = [pair for reader, pair in counts.by_reader.items() if counts_in(reader)]
    return f"{sum(bad for _, bad in chosen)} bad of {sum(seen for seen, _ in chosen)}"
