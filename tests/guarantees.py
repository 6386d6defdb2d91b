"""What readers of each kind of table get, on each store, with each catalog, with a cut and without one.

``python -m tests.guarantees`` writes docs/reference/guarantees.md anew. The contract tests do on a store what each
promise is about, and compare what they find with what is stated here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow_provider.domain.checks import row_count
from airflow_provider.domain.columns import rename
from airflow_provider.domain.completeness import none_needed
from airflow_provider.domain.errors import (
    CheckFailed,
    DependentReaders,
    Fenced,
    ForeignCommit,
    NotReady,
    TopologyError,
    Unavailable,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.source_bounds import FileSource, Source
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Job, increment, previous, state
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.tables.errors import TableDropped
from tests.contract.coordination_world import DOMAIN, World, barrier, day, owner
from tests.contract.interruptions import Died, interrupted
from tests.contract.test_coordination_foreign import commit
from tests.contract.test_coordination_restoring import renewed

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "guarantees.md"


class PointerStatus(StrEnum):
    """How a promise stands for a kind of table, on a store, with a catalog."""

    KEPT = "kept"
    """Readers with a cut and engines without one get what is promised."""
    BY_CUTS = "by cuts"
    """Readers with a cut do; engines that load tables from the catalog may not."""
    REFUSED = "refused"
    """What would break it is refused by a typed error."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """Where a table is. :ivar elsewhere: whether its catalog lies outside of the store's database."""

    kind: TableKind
    store: str
    elsewhere: bool


SETTINGS = (
    ("memory", False),
    ("SQLite", False),
    ("PostgreSQL", False),
    ("memory", True),
    ("SQLite", True),
    ("PostgreSQL", True),
    ("ZooKeeper", True),
)
"""Store, and whether the catalog lies elsewhere; ZooKeeper has no database for one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Promise:
    """One line of the page.

    :param rule: of the protocol. :param text: what is promised. :param stated: how it stands in a setting.
    :param observed: does in an empty world what it is about, with tables of a kind, and says how it stands.
    """

    rule: str
    text: str
    stated: Callable[[Setting], PointerStatus]
    observed: Callable[[World, TableKind], PointerStatus]


# --- what is stated ----------------------------------------------------------------------------------------------


def kept(_: Setting) -> PointerStatus:
    return PointerStatus.KEPT


def by_cuts(_: Setting) -> PointerStatus:
    return PointerStatus.BY_CUTS


def refused(_: Setting) -> PointerStatus:
    return PointerStatus.REFUSED


def kept_in_the_store(setting: Setting) -> PointerStatus:
    """Where one transaction moves records and pointers."""
    return PointerStatus.BY_CUTS if setting.elsewhere else PointerStatus.KEPT


def kept_of_incremental(setting: Setting) -> PointerStatus:
    """Earlier states of a full table are in no version that the catalog shows."""
    return PointerStatus.BY_CUTS if setting.kind is TableKind.FULL else PointerStatus.KEPT


# --- what is done ------------------------------------------------------------------------------------------------


def _job(world: World, kind: TableKind, **options: Any) -> Any:
    return world.job("j", [world.table(name, kind=kind) for name in ("d", "e")], **options)


def _started(world: World, kind: TableKind, *days: int) -> Any:
    """The job, of which *days*, or else the first day, are committed."""
    job = _job(world, kind)
    for number in days or (1,):
        world.run(job, day(number), [number])
    return job


def _judged(*, by_cut: bool, by_engine: bool) -> PointerStatus:
    assert by_cut, "a cut does not keep it"
    return PointerStatus.KEPT if by_engine else PointerStatus.BY_CUTS


def _alike(world: World, *tables: str) -> bool:
    """Whether engines see of each table what a cut of it alone reads."""
    return all(world.engine_rows(table) == world.rows(table)[table] for table in tables)


def unpublished(world: World, kind: TableKind) -> PointerStatus:
    job = _started(world, kind)
    attempt = world.begin(job, day(2))
    world.write(attempt, [2])
    world.coordinator.complete(attempt)
    return _judged(by_cut=world.rows("d") == {"d": [(1, 1)]}, by_engine=_alike(world, "d", "e"))


def beyond_a_gap(world: World, kind: TableKind) -> PointerStatus:
    _started(world, kind, 1, 2, 4)
    return _judged(by_cut=world.cut("d").barrier == barrier(2), by_engine=_alike(world, "d", "e"))


def skipped(world: World, kind: TableKind) -> PointerStatus:
    _started(world, kind)
    world.coordinator.skip(DOMAIN, "j", day(2), reason="nothing came", by="me")
    wanted = [(2, 1)] if kind is TableKind.FULL else [(1, 1)]
    return _judged(by_cut=world.rows("d") == {"d": wanted}, by_engine=_alike(world, "d", "e"))


def columns(world: World, kind: TableKind) -> PointerStatus:
    _started(world, kind)
    changes = [rename("by", "author")]
    world.begin(
        world.job("j", [world.table(name, kind=kind, column_changes=changes) for name in ("d", "e")]), day(2)
    )
    cut = world.cut("d", "e")
    renamed = all("author" in world.cuts.read(cut, name).schema.names for name in cut.states)
    return _judged(
        by_cut=renamed and world.rows("d") == {"d": [(1, 1)]},
        by_engine=_alike(world, "d", "e")
        and all("author" in world.engine_columns(name) for name in cut.states),
    )


def at_once(world: World, kind: TableKind) -> PointerStatus:
    """A process is killed right after its commit."""
    job = _started(world, kind)
    attempt = world.begin(job, day(2))
    world.write(attempt, [2])

    def die() -> None:
        raise Died

    with suppress(Died):
        interrupted(world, die, "table.published").publish(attempt)
    return _judged(by_cut=world.cut("d", "e").barrier == barrier(2), by_engine=_alike(world, "d", "e"))


def one_by_one(world: World, kind: TableKind) -> PointerStatus:
    """A commit comes between the two loads."""
    job = _started(world, kind)
    cut, first = world.cut("d", "e"), world.engine_rows("d")
    world.run(job, day(2), [2])
    whole = world.rows_of(cut) == {"d": [(1, 1)], "e": [(1, 1)]}
    return _judged(by_cut=whole, by_engine=world.engine_rows("e") == first)


def again(world: World, kind: TableKind) -> PointerStatus:
    job = _started(world, kind)
    lease = world.leases.cut(DOMAIN, ["d"], name="report", owner="me")
    first = world.engine_rows("d")
    world.run(job, day(2), [2])
    return _judged(by_cut=world.rows_of(lease.cut) == {"d": first}, by_engine=world.engine_rows("d") == first)


def earlier(world: World, kind: TableKind) -> PointerStatus:
    """An engine filters the current version by the epoch."""
    _started(world, kind, 1, 2)
    found = [row for row in world.engine_rows("d") if row[0] <= 1]
    return _judged(by_cut=world.rows("d", at=barrier(1)) == {"d": [(1, 1)]}, by_engine=found == [(1, 1)])


def one_barrier(world: World, kind: TableKind) -> PointerStatus:
    """Two jobs, one of which is a day ahead."""
    for name, last in (("d", 3), ("e", 2)):
        for number in range(1, last + 1):
            world.run(world.job(name, [world.table(name, kind=kind)]), day(number), [number])
    found = {table: world.engine_rows(table)[-1][0] for table in ("d", "e")}
    return _judged(by_cut=world.cut("d", "e").barrier == barrier(2), by_engine=found["d"] == found["e"])


def missing_file(world: World, kind: TableKind) -> PointerStatus:
    _started(world, kind)
    (lost,) = world.cuts.files(world.cut("d"), "d")
    world.lose(lost)
    return _judged(by_cut=_fails(lambda: world.rows("d")), by_engine=_fails(lambda: world.engine_rows("d")))


def _fails(read: Callable[[], object]) -> bool:
    with suppress(Unavailable, FileNotFoundError, KeyError):
        read()
        return False
    return True


def others_rows(world: World, kind: TableKind) -> PointerStatus:
    job = _started(world, kind)
    commit(world, "d", "append", {1: [7]})
    return _refused(world, lambda: world.run(job, day(2), [2]), ForeignCommit)


def dropped(world: World, kind: TableKind) -> PointerStatus:
    job = _started(world, kind)
    world.pointers.drop(DOMAIN, "d")
    return _refused(world, lambda: world.begin(job, day(2)), TableDropped)


def read_already(world: World, kind: TableKind) -> PointerStatus:
    _started(world, kind)
    world.run(world.job("r", inputs=[world.table("d", kind=kind)]), day(1))
    again = world.job("j", [world.table(name, kind=kind) for name in ("d", "e")], on_rerun="new_revision")
    return _refused(world, lambda: world.run(again, day(1), [2], owner("again")), DependentReaders)


def skipped_beyond_a_gap(world: World, kind: TableKind) -> PointerStatus:
    _started(world, kind)
    skips = partial(world.coordinator.skip, DOMAIN, "j", day(3), reason="nothing came", by="me")
    if _refused(world, skips, NotReady) is PointerStatus.REFUSED:
        return PointerStatus.REFUSED
    return _judged(by_cut=world.cut("d").barrier == barrier(1), by_engine=_alike(world, "d", "e"))


# Declarations and sources that change.


def below_the_beginning(world: World, kind: TableKind) -> PointerStatus:
    """Days are computed one by one below the first one."""
    job = _job(world, kind, origin=None)
    world.run(job, day(3), [3])
    first = world.rows("d")
    world.run(job, day(1), [1])
    unseen = world.rows("d") == first and _alike(world, "d", "e")
    world.run(job, day(2), [2])
    wanted = [(3, 3)] if kind is TableKind.FULL else [(1, 1), (2, 2), (3, 3)]
    return _judged(by_cut=world.rows("d") == {"d": wanted}, by_engine=unseen and _alike(world, "d", "e"))


def origin_that_was_read(world: World, kind: TableKind) -> PointerStatus:
    table = world.table("d", kind=kind)

    def job(origin: int) -> Job:
        return world.job("j", [table], inputs=[previous(table)], origin=barrier(origin))

    world.run(job(2), day(3), [3])
    return _refused(world, lambda: world.begin(job(0), day(1)), TopologyError)


def left_behind(world: World, kind: TableKind) -> PointerStatus:
    """An input is computed again after an epoch has read it by an edge that ignores revisions."""
    _started(world, kind)
    edge = increment if kind is TableKind.INCREMENTAL else state
    ignoring = edge(world.table("d", kind=kind), on_upstream_revision="ignore")
    world.run(world.job("r", [world.table("r", kind=kind)], inputs=[ignoring]), day(1))
    world.run(_job(world, kind), day(1), [2], owner("again"))
    labels = [label.table for label in world.cut("d", "r").outdated]
    return _judged(by_cut=labels == ["r"], by_engine=False)


def late_file(world: World, kind: TableKind) -> PointerStatus:
    """The rows are the number of files that the epoch has read."""
    with _folder() as feed:
        job, found = _job(world, kind, inputs=[feed.source]), []
        for number in (1, 2):
            attempt = world.begin(job, day(number), sources=SourceReaders())
            found.append(len(attempt.sources[0].files))
            world.write(attempt, [found[-1]])
            world.coordinator.publish(attempt)
            feed.land(day(1))
        return _judged(by_cut=found == [0, 1], by_engine=_alike(world, "d", "e"))


def two_revisions(world: World, kind: TableKind) -> PointerStatus:
    with _folder(late="revision") as feed:
        jobs = [world.job(name, [world.table(name, kind=kind)], inputs=[feed.source]) for name in ("d", "e")]
        for job in jobs:
            attempt = world.begin(job, day(1), sources=SourceReaders())
            world.write(attempt)
            world.coordinator.publish(attempt)
        feed.land(day(1))
        again = partial(world.begin, jobs[0], day(1), owner("again"), sources=SourceReaders())
        return _refused(world, again, DependentReaders)


@dataclass(frozen=True, slots=True)
class _Folder:
    """A source of files for each day. :param place: where they lie."""

    place: Path
    source: Source

    def land(self, epoch: Interval) -> None:
        path = self.place / f"{epoch.start:%Y-%m-%d}"
        path.mkdir(exist_ok=True)
        (path / f"{len(list(path.iterdir()))}.csv").write_text("a row")


@contextmanager
def _folder(**options: Any) -> Iterator[_Folder]:
    with TemporaryDirectory() as place:
        source = FileSource("feed", f"{place}/{{start:%Y-%m-%d}}/*.csv", complete=none_needed(), **options)
        yield _Folder(Path(place), source)


# Attempts.


def lost_output(world: World, kind: TableKind) -> PointerStatus:
    job = _started(world, kind)
    attempt = world.begin(job, day(2))
    before = world.data()
    world.write(attempt, [2])
    world.lose(min(world.data() - before))
    return _refused(world, lambda: world.coordinator.publish(attempt), Unavailable)


def zombie(world: World, kind: TableKind) -> PointerStatus:
    job = _started(world, kind)
    first = world.begin(job, day(2))
    world.write(first, [2])
    world.begin(job, day(2), owner(try_number=2))
    return _refused(world, lambda: world.coordinator.publish(first), Fenced)


def restored(world: World, kind: TableKind) -> PointerStatus:
    job = _started(world, kind)
    attempt = world.begin(job, day(2))
    world.write(attempt, [2])
    renewed(world)
    return _refused(world, lambda: world.coordinator.publish(attempt), Fenced)


def checked(world: World, kind: TableKind) -> PointerStatus:
    job = _job(world, kind, checks=[row_count("d", at_least=2)])
    attempt = world.begin(job, day(1))
    world.write(attempt, [1])
    with suppress(CheckFailed):
        world.coordinator.check(attempt)
    return _refused(world, lambda: world.coordinator.publish(attempt), CheckFailed)


def _refused(world: World, work: Callable[[], object], error: type[Exception]) -> PointerStatus:
    """Return whether *work* is refused by *error* and changes nothing."""
    before = world.content()
    with suppress(error):
        work()
        return PointerStatus.BY_CUTS
    return PointerStatus.REFUSED if world.content() == before else PointerStatus.BY_CUTS


PROMISES = (
    Promise(rule="R4", text="rows that are not published are not visible", stated=kept, observed=unpublished),
    Promise(
        rule="R17",
        text="a table loaded alone has the rows of its newest complete state: nothing beyond a gap, no earlier state",
        stated=kept,
        observed=beyond_a_gap,
    ),
    Promise(
        rule="R5",
        text="a skipped epoch adds no rows; a full table stays as it was",
        stated=kept,
        observed=skipped,
    ),
    Promise(
        rule="R32", text="a changed column is changed for all rows at once", stated=kept, observed=columns
    ),
    Promise(
        rule="R22", text="a missing file is an error, never fewer rows", stated=kept, observed=missing_file
    ),
    Promise(
        rule="R2",
        text="a commit is seen whole and at once, also when its process is killed right after it",
        stated=kept_in_the_store,
        observed=at_once,
    ),
    Promise(
        rule="R3",
        text="tables that are loaded one after the other are of one commit",
        stated=by_cuts,
        observed=one_by_one,
    ),
    Promise(
        rule="R18",
        text="tables of jobs that are not equally far are of one barrier",
        stated=by_cuts,
        observed=one_barrier,
    ),
    Promise(
        rule="R19", text="what was read is read again, whatever is committed", stated=by_cuts, observed=again
    ),
    Promise(
        rule="R24",
        text="the state of an earlier barrier can be read (engines: by a filter on `_epoch`)",
        stated=kept_of_incremental,
        observed=earlier,
    ),
    Promise(
        rule="R18",
        text="what committed epochs have read does not change: computing it again",
        stated=refused,
        observed=read_already,
    ),
    Promise(
        rule="R17",
        text="the next commit to a table with rows of another program (engines read these until they are rolled back)",
        stated=refused,
        observed=others_rows,
    ),
    Promise(
        rule="R17", text="work on a table that was dropped from the catalog", stated=refused, observed=dropped
    ),
    Promise(
        rule="R5",
        text="skipping an epoch whose predecessor is missing",
        stated=lambda setting: (
            PointerStatus.REFUSED if setting.kind is TableKind.FULL else PointerStatus.KEPT
        ),
        observed=skipped_beyond_a_gap,
    ),
    Promise(
        rule="R7",
        text="epochs below a table's first one are seen in one step, when none is missing",
        stated=kept,
        observed=below_the_beginning,
    ),
    Promise(
        rule="I11",
        text="a file that comes late is read by the next epoch",
        stated=kept,
        observed=late_file,
    ),
    Promise(
        rule="R18",
        text="committed rows computed from what an edge ignores carry a label, once that is computed again",
        stated=by_cuts,
        observed=left_behind,
    ),
    Promise(
        rule="R7",
        text="an earlier origin, where a committed epoch has read that there was nothing",
        stated=refused,
        observed=origin_that_was_read,
    ),
    Promise(
        rule="I11",
        text="another revision of a source, beside a job that has committed what it read of the one before",
        stated=refused,
        observed=two_revisions,
    ),
    Promise(
        rule="R16", text="publishing output of which a file is missing", stated=refused, observed=lost_output
    ),
    Promise(
        rule="R10", text="publishing by an attempt that another has replaced", stated=refused, observed=zombie
    ),
    Promise(
        rule="R33",
        text="publishing what was begun before the store was restored, or a standby promoted",
        stated=refused,
        observed=restored,
    ),
    Promise(rule="R14", text="publishing rows that a check refuses", stated=refused, observed=checked),
)
"""What the page states."""

FRONT = """# What is kept for whom

Made by `python -m tests.guarantees`; a test fails when this page is not what it makes. Other tests do on each
store what each line is about, for both kinds of tables, and compare what they find with what stands here
([test_coordination_guarantees](../../tests/contract/test_coordination_guarantees.py)).

**kept**: readers with a cut get it, and so do engines without one, which load tables from the catalog. **by cuts**:
readers with a cut get it, engines may not ([what they see](../explanation/catalog-readers.md)). **refused**: what would
break it ends with a typed error, and nothing is changed.

"In it" means a catalog in the store's database, "elsewhere" one outside of it. ZooKeeper has no database for a catalog.
What is said of PostgreSQL with a catalog elsewhere is decided by code that the runs on other stores go through; there
is no run of its own. Iceberg tables are tried on SQLite with both catalogs, memory tables on all stores: `make test`
runs the memory store and Iceberg on SQLite, `make test-slow` the others.

"""


def page() -> str:
    """What docs/reference/guarantees.md must be."""
    names = [f"{store}, {'elsewhere' if elsewhere else 'in it'}" for store, elsewhere in SETTINGS]
    lines = [f"| rule | what | kind | {' | '.join(names)} |", f"|{' --- |' * (len(names) + 3)}"]
    for promise in PROMISES:
        stated = {kind: _cells(promise, kind) for kind in TableKind}
        same = len(set(stated.values())) == 1
        for kind, cells in list(stated.items())[: 1 if same else 2]:
            lines.append(
                f"| {promise.rule} | {promise.text} | {'both' if same else kind.value} | {' | '.join(cells)} |"
            )
    return FRONT + "\n".join(lines) + "\n"


def _cells(promise: Promise, kind: TableKind) -> tuple[str, ...]:
    return tuple(
        promise.stated(Setting(kind=kind, store=store, elsewhere=elsewhere)).value
        for store, elsewhere in SETTINGS
    )


if __name__ == "__main__":
    PAGE.write_text(page())
