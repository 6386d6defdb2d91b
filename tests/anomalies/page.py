"""How verdicts are shown: as a table in a terminal, and as docs/reference/anomalies.md.

``python -m tests.anomalies.page`` makes the page anew from the record of the last run that was kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table

from tests.anomalies.schedules import ROOT, Schedule, schedules
from tests.anomalies.verdicts import PLAIN, STORES, Observed, Verdict, figures, load, stores_of
from tests.rules import tags_of

PAGE = ROOT / "docs" / "reference" / "anomalies.md"
FRONT = """# Anomalies, as they ran

Made by `make anomalies ARGS=--write` from what ran; a test fails when this page is not what the record of that run
makes. What each schedule is, and which mechanism prevents it, is said in [anomalies](../anomalies.md). The rules and
invariants are those whose tags the tests carry.

**With this package**: the tests that carry the schedule's id. Each number is how many ran and passed on a store: memory
tables on the five stores; Iceberg tables on two, whose rows are written as files; and, for the schedules in which it
matters how rows get into a table, Iceberg tables on two whose rows Spark SQL writes (INSERT into a draft).
A dash says that none ran there, so that nothing is claimed. "Prevented" needs all of them; words behind it
name what it takes, such as a level that a reader asks for.

**Plain Parquet, plain Iceberg**: the same schedule without this package, as a careful team has it today. Real are
Spark (one local session), the tables, and every read and write. Whatever such a team can have is there:

- Tables are partitioned by epoch, and a job replaces its own epoch, so that a retry adds nothing twice.
- What takes several steps is staged (Parquet: a folder beside the table; Iceberg: a branch) and shown at its end.
- Iceberg refuses a write to an epoch that another has written since the job began (`validate-from-snapshot-id`).
- A task that reads a table twice pins its files or its snapshot; who reads for long holds a tag.
- Airflow starts a task when those before it have ended, as assets or an ExternalTaskSensor have it. It does not run
  itself: its part is that order, and a kill is an exception between two steps of a job.

R asks for what is there: which epochs of which tables fit together is what it wants to hear. Whether a schedule came
out well is computed from the rows that were read, by what must hold of them.

"""


def cell(verdict: Verdict, store: str) -> str:
    """How many tests passed on a store, or of how many some failed; a dash when none ran."""
    passed, failed = verdict.passed.get(store, 0), verdict.failed.get(store, 0)
    if not passed and not failed:
        return "–"
    return f"{failed} of {passed + failed} FAILED" if failed else str(passed)


def with_package(verdict: Verdict, schedule: Schedule) -> str:
    """The verdict in a word or two."""
    if verdict.failed:
        return "FAILED"
    if schedule.is_prevented and not verdict.is_prevented(schedule):
        return "not run everywhere"
    return schedule.standing


def without(observed: Observed | None) -> str:
    """The verdict of a plain column."""
    if observed is None:
        return "not run"
    return {True: "prevented", False: "happens", None: "no counterpart"}[observed.holds]


def on_stores(verdict: Verdict) -> str:
    """How many tests passed on how many stores; by name, those where one failed or where none ran and has to."""
    whole = [count for store, count in verdict.passed.items() if store not in verdict.failed]
    said = [f"{'–'.join(map(str, sorted({min(whole), max(whole)})))} on {len(whole)}"] if whole else []
    said += [f"{STORES[store]}: {cell(verdict, store)}" for store in STORES if store in verdict.failed]
    ran = verdict.passed.keys() | verdict.failed.keys()
    said += [f"{STORES[store]}: not run" for store in stores_of(verdict.name) if store not in ran]
    return "; ".join(said) if ran else "not run"


def table(found: Sequence[Verdict]) -> Table:
    """The verdicts for a terminal, of 80 columns too."""
    known = schedules()
    shown = Table(title="Named schedules", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    shown.add_column("id", no_wrap=True)
    for title in ("with", "tests on stores", *PLAIN.values()):
        shown.add_column(title.replace(" ", "\n", 1), overflow="fold")
    for verdict in found:
        schedule = known[verdict.name]
        shown.add_row(
            f"{verdict.name} {schedule.title}",
            with_package(verdict, schedule),
            on_stores(verdict),
            *(without(verdict.plain.get(column)) for column in PLAIN),
        )
    return shown


def page(found: Sequence[Verdict] | None = None) -> str:
    """What docs/reference/anomalies.md must be."""
    found, known = load() if found is None else found, schedules()
    titles = ["id", "with this package", *STORES.values(), *PLAIN.values()]
    lines = [f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}"]
    lines += [f"| {' | '.join(_row(verdict, known))} |" for verdict in found]
    lines += ["", *(f"    figure {name} {value}" for name, value in figures(found, known).items())]
    for verdict in found:
        lines += ["", *_paragraph(verdict, known[verdict.name])]
    return FRONT + "\n".join(lines) + "\n"


def _row(verdict: Verdict, known: Mapping[str, Schedule]) -> list[str]:
    return [
        f"{verdict.name} {known[verdict.name].title}",
        with_package(verdict, known[verdict.name]),
        *(cell(verdict, store) for store in STORES),
        *(without(verdict.plain.get(column)) for column in PLAIN),
    ]


def _paragraph(verdict: Verdict, schedule: Schedule) -> list[str]:
    said = [
        f"**{title}**: {without(verdict.plain.get(column))}. {verdict.plain[column].seen}"
        for column, title in PLAIN.items()
        if column in verdict.plain
    ]
    names = ", ".join(f"`{Path(test).name.partition('::')[2]}`" for test in verdict.tests)
    proof = f"[Rules](rules.md): {', '.join(tags_of(verdict.tests))}. Tests: {names}."
    return [
        f"## {schedule.name} {schedule.title}",
        "",
        f"{_sentence(schedule.course)}",
        "",
        f"- **With this package**: {with_package(verdict, schedule)}. {_sentence(schedule.mechanism)} {proof}",
        *(f"- {sentence}" for sentence in said),
    ]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


if __name__ == "__main__":
    PAGE.write_text(page())
