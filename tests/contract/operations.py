"""Every operation of the coordination, once, on stores that write their transactions down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow_provider.coordination.attempts.bounds_provider import as_provider
from airflow_provider.coordination.attempts.reserve import Race
from airflow_provider.coordination.upkeep.bind import bind
from airflow_provider.coordination.upkeep.move import move_domain
from airflow_provider.coordination.upkeep.recover import recover
from airflow_provider.coordination.upkeep.rollback import plan_rollback, rollback
from airflow_provider.domain.checks import row_count
from airflow_provider.domain.columns import add
from airflow_provider.domain.compaction import CompactionRecord
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import CheckFailed, NotReady
from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.records import compaction_key, reservation_key, retention_key
from airflow_provider.domain.retention import RetentionRecord
from airflow_provider.domain.source_bounds import (
    BoundFile,
    FileSource,
    Late,
    PostgresSource,
    SourceBounds,
    Span,
)
from airflow_provider.domain.table_kind import TableKind
from airflow_provider.domain.topology import Job, Table, previous, state
from airflow_provider.stores.base import Put, Transaction
from airflow_provider.tables.base import EPOCH_COLUMN
from tests.contract.coordination_world import DOMAIN, PAST_TTL, Backend, World, barrier, day, owner, rows
from tests.services.directories import quick_directory
from tests.services.stores import empty_sqlite_file
from tests.transactions import Record, RecordingStore, Row

WHY = {"reason": "replaced by another", "by": "ada"}


def recorded() -> list[Row]:
    """The transactions of all operations, in their order."""
    record = Record()
    scripts: Sequence[Callable[[Record, World], None]] = (
        declarations,
        attempts,
        races,
        tries,
        revisions,
        together,
        restating,
        sources,
        participants,
        checks,
        skips,
        columns,
        foreign,
        ends,
        drops,
        rollbacks,
        leases,
        expired_states,
        vacuums,
        compactions,
        moves,
    )
    for script in scripts:
        world = recording(record)
        try:
            script(record, world)
        finally:
            world.close()
    return record.rows


def recording(record: Record, place: str = "") -> World:
    """Return an empty world in memory, all of whose parts use one recording store."""
    world = Backend("memory", Path(), Path()).world()
    world.store = RecordingStore(world.store, record, place)
    world.coordinator = world.worker()
    world.leases, world.retention = world.reader(), world.keeper()
    return world


def cascade(world: World) -> tuple[Job, Job, Job]:
    """Jobs source, own and reader, each registered, and each reading the one before."""
    source = world.job("source")
    own = world.job("own", inputs=[world.table("source")])
    reader = world.job("reader", inputs=[world.table("own")])
    for job in (source, own, reader):
        world.coordinator.register(job)
    return source, own, reader


def declarations(record: Record, world: World) -> None:
    table, register = world.table, world.coordinator.register
    with record.of("register: the first job of a domain", "R6"):
        register(world.job("source"))
    with record.of("register: a job that has read nothing yet", "R6"):
        register(world.job("own", inputs=[table("source")]))
    world.coordinator.register(world.job("late", origin=None))
    with record.of("register: an origin before anything is committed", "R6, R7"):
        register(world.job("late"))
    world.run(world.job("source"), day(1))
    with record.of("register: one more table, which begins where the others are", "R6, R7"):
        register(world.job("source", [table("source"), table("more")]))
    world.run(world.job("leaving", [table("kept"), table("left")]), day(1))
    register(world.job("leaving", [table("kept")]))
    with record.of("retire: a table that its job has left", "R6, R7"):
        world.coordinator.retire(DOMAIN, "leaving", table="left", **WHY)
    with record.of("register: a table of another job, taken over", "R6, R7"):
        register(world.job("successor", [table("left")]))
    world.run(world.job("grown", origin=barrier(3)), day(4))
    with record.of("register: an earlier origin of a table that has commits", "R7, R13"):
        register(world.job("grown"))
    both = world.job("several", [table("one"), table("two")])
    world.run(world.job("several", [table("one")]), day(1))
    register(both)
    world.run(world.job("several", [table("one")]), day(2))
    attempt = world.begin(both, day(2), owner("fills"))
    world.write(attempt)
    with record.of("publish: a table that a committed epoch lacks", "R7, R10"):
        world.coordinator.publish(attempt)


def attempts(record: Record, world: World) -> None:
    source, own, _ = cascade(world)
    with record.of("begin: a job without inputs", "R10, R23, R24"):
        attempt = world.begin(source, day(1))
    with record.of("report: PROCESSED and WRITTEN", "R1, R10"):
        world.write(attempt)
    with record.of("complete", "R10, R16"):
        world.coordinator.complete(attempt)
    with record.of("heartbeat", "R10, R23"):
        world.coordinator.heartbeat(attempt)
    with record.of("publish: the first epoch of a table", "R3, R10, R11"):
        world.coordinator.publish(attempt)
    with record.of("begin: a job with inputs", "R10, R12, R23, R24"):
        attempt = world.begin(own, day(1))
    world.write(attempt)
    with record.of("publish: what it has read was not computed again", "R3, R10, R11, R13"):
        world.coordinator.publish(attempt)
    attempt = world.begin(source, day(2))
    world.write(attempt)
    with record.of("publish: one more epoch of a table", "R3, R10, R11"):
        world.coordinator.publish(attempt)
    several = world.job("several", [world.table("one"), world.table("two")])
    world.coordinator.register(several)
    attempt = world.begin(several, day(1))
    world.write(attempt)
    with record.of("publish: several tables", "R2, R3, R10, R11"):
        world.coordinator.publish(attempt)
    past = world.job("past", inputs=[previous(world.table("past"))])
    world.run(past, day(1))
    attempt = world.begin(past, day(2))
    world.write(attempt)
    with record.of("publish: a job that reads its own past", "R3, R10, R11, R13"):
        world.coordinator.publish(attempt)


def races(record: Record, world: World) -> None:
    source, *_ = cascade(world)
    attempt = world.begin(source, day(1))
    world.write(attempt)
    race = Race(world.coordinator.context, attempt, slowest_s=2)
    reserved = world.begin(source, day(2))
    world.write(reserved)
    with record.of("publish: the head is reserved after lost races", "R10, R11"):
        race.take()
    with record.of("publish: by the holder of the reservation", "R3, R10, R11"):
        world.coordinator.publish(attempt)
    with record.of("publish: after another had reserved the head", "R3, R10, R11"):
        world.coordinator.publish(reserved)
    world.write(failing := world.begin(source, day(3)))
    race = Race(world.coordinator.context, failing, slowest_s=2)
    race.take()
    race.look(world.store.read(DOMAIN, [reservation_key(DOMAIN)]))
    with record.of("publish: a reservation ends with an error", "R10, R11"):
        race.release()


def tries(record: Record, world: World) -> None:
    source, *_ = cascade(world)
    first = world.begin(source, day(1))
    with record.of("begin: the next try of a run", "R10, R23"):
        second = world.begin(source, day(1), owner(try_number=2))
    assert first.token < second.token
    world.clock.advance(PAST_TTL)
    with record.of("begin: another run, after a silent one", "R10, R23"):
        third = world.begin(source, day(1), owner("manual"))
    world.write(third)
    world.coordinator.complete(third)
    with record.of("begin: complete output is adopted", "R10, R16"):
        fourth = world.begin(source, day(1), owner("manual", 2))
    assert fourth.adopted
    with record.of("publish: complete output that was adopted", "R3, R10, R11, R16"):
        world.coordinator.publish(fourth)
    attempt = world.begin(source, day(2))
    with record.of("abort", "R10"):
        world.coordinator.abort(attempt, "it failed")
    with record.of("begin: after an abort", "R10, R23"):
        world.begin(source, day(2), owner(try_number=2))


def revisions(record: Record, world: World) -> None:
    source, own, reader = cascade(world)
    for job in (source, own):
        world.run(job, day(1))
    with record.of("begin: a revision", "R10, R18"):
        attempt = world.begin(own, day(1), owner("manual"))
    world.write(attempt, [2])
    with record.of("publish: a revision without readers", "R3, R10, R11, R13, R18"):
        world.coordinator.publish(attempt)
    assert world.coordinator.epoch(DOMAIN, reader.name, day(1)) is None


def together(record: Record, world: World) -> None:
    source, *_ = cascade(world)
    attempts = [world.begin(source, day(number)) for number in (1, 2)]
    for attempt in attempts:
        world.write(attempt)
    with record.of("publish: two epochs of one run", "R2, R3, R10, R11, R27"):
        world.coordinator.publish_together(attempts)


def restating(record: Record, world: World) -> None:
    """A committed epoch that another job has read is computed again with that job's epoch, and published whole."""
    source, own = world.job("source"), world.job("own", inputs=[world.table("source")])
    world.run(source, day(1))
    world.run(own, day(1))
    service, operations = world.coordinator, world.coordinator.restatements
    options: dict[str, Any] = {"reason": WHY["reason"], "by": WHY["by"]}

    def staged(name: str, job: Job) -> None:
        with record.of(
            f"begin: within a restatement{'' if job is source else ', what reads staged rows'}", "R10, R28"
        ):
            attempt = service.begin_within(name, job, day(1), owner("restate"))
        assert isinstance(attempt, Attempt)
        world.write(attempt)
        service.complete(attempt)
        with record.of("stage", "R10, R14, R28"):
            service.stage(attempt)

    with record.of("restate: open", "R6, R28"):
        operations.open(DOMAIN, ["source"], "2024-01-01", name="one", needs_approval=True, **options)
    staged("one", source)
    staged("one", own)
    with record.of("restate: approve", "R29"):
        operations.approve(DOMAIN, "one", output=operations.status(DOMAIN, "one").output, by=WHY["by"])
    with record.of("restate: publish", "R2, R3, R10, R11, R13, R18, R28"):
        operations.publish(DOMAIN, "one")
    with record.of("restate: revert", "R2, R3, R10, R11, R13, R14, R18, R23, R24, R28, R30"):
        operations.revert(DOMAIN, "one", **options)
    operations.open(DOMAIN, ["source"], "2024-01-01", name="two", **options)
    staged("two", source)
    staged("two", own)
    late = world.job("reader", inputs=[world.table("source")])
    world.run(late, day(1), by=owner("late"))
    with record.of("restate: an epoch joins that has read meanwhile", "R18, R28"), suppress(NotReady):
        operations.publish(DOMAIN, "two")
    with record.of("restate: abandon", "R10, R28"):
        operations.abandon(DOMAIN, "two", **options)
    corrected = world.job("files", inputs=[FileSource("landing", "/landing/{start}", late=Late.REVISION)])
    for size in (1, 2):
        bounds = {"landing": SourceBounds(source="landing", files=(BoundFile(uri="/x", size_bytes=size),))}
        if size == 1:
            attempt = world.begin(corrected, day(1), sources=bounds)
            world.write(attempt)
            world.coordinator.publish(attempt)
            operations.open(DOMAIN, ["files"], "2024-01-01", name="three", **options)
        else:
            service.begin_within("three", corrected, day(1), owner("restate"), sources=bounds)
    with record.of("restate: abandon, which had read a source anew", "R10, R28, I11"):
        operations.abandon(DOMAIN, "three", **options)
    _reruns(record, world, source, own)
    operations.open(DOMAIN, ["source"], "2024-01-01", name="four", **options)
    world.clock.advance(timedelta(days=8))
    with record.of("vacuum: a restatement whose time is over", "R24, R28"):
        world.retention.vacuum(DOMAIN)


def _reruns(record: Record, world: World, source: Job, own: Job) -> None:
    """Runs of one DAG ask for epochs again that others have read."""
    for job in (source, own):
        world.run(job, day(2))
    operations, asked = world.coordinator.restatements, {"reason": WHY["reason"]}
    with record.of("restate: a run asks for what others have read", "R6, R18, R28"):
        name = operations.of_rerun(source, [day(1)], owner("again"), **asked)
    with record.of("restate: another run of the same DAG does", "R6, R18, R28"):
        operations.of_rerun(source, [day(2)], owner("again, too"), **asked)
    operations.abandon(DOMAIN, str(name), **WHY)


def sources(record: Record, world: World) -> None:
    files = world.job("files", inputs=[FileSource("landing", "/landing/{start}", late=Late.IGNORE)])
    chained = world.job("chained", inputs=[FileSource("queue", "/queue/{start}", late=Late.NEXT)])
    for job, source in ((files, "landing"), (chained, "queue")):
        world.coordinator.register(job)
        bounds = {source: SourceBounds(source=source, files=(BoundFile(uri="/x", size_bytes=1),))}
        how = "whose bounds depend on those beside them" if job is chained else "without earlier readers"
        with record.of(f"begin: a source {how}", "R10, I11"):
            world.begin(job, day(1), sources=bounds)
        with record.of(f"begin: a source {how}, again", "R10, I11"):
            attempt = world.begin(job, day(1), owner(try_number=2))
        world.write(attempt)
        with record.of(f"publish: a source {how}", "R3, R10, R11, I11"):
            world.coordinator.publish(attempt)
    other = world.job("other", inputs=[FileSource("landing", "/landing/{start}", late=Late.IGNORE)])
    world.coordinator.abort(
        world.begin(files, day(2), sources={"landing": SourceBounds(source="landing")}), "it failed"
    )
    world.coordinator.register(other)
    bounds = {"landing": SourceBounds(source="landing", files=(BoundFile(uri="/y", size_bytes=1),))}
    with record.of("begin: a source on which nothing stands", "R10, I11"):
        world.begin(files, day(2), owner(try_number=2), sources=bounds)
    for name, source in (("landing", files), ("queue", chained)):
        bounds = {name: SourceBounds(source=name, files=(BoundFile(uri="/z", size_bytes=1),))}
        how = "" if source is files else ", whose bounds depend on those beside them"
        with record.of(f"bind: a source{how}, of a committed epoch", "R18, R24, I11"):
            bind(
                world.coordinator.context,
                DOMAIN,
                name,
                day(1),
                as_provider(bounds),
                reason="it was mended",
                by="ada",
            )
        attempt = world.begin(source, day(1), owner("mended"), sources=bounds)
        world.write(attempt)
        if source is files:
            with record.of("publish: an epoch that stood behind its source", "R3, R10, R11, R18, I11"):
                world.coordinator.publish(attempt)


def participants(record: Record, world: World) -> None:
    source, *_ = cascade(world)
    with record.of("begin: an attempt with two writers", "R10"):
        attempt = world.begin(source, day(1), participants=2)
    with record.of("join: the first try of a participant", "R10"):
        first = world.coordinator.join(attempt, 0, owner())
    with record.of("join: its next try", "R10"):
        again = world.coordinator.join(attempt, 0, owner(try_number=2))
    assert first.participant_attempt < again.participant_attempt
    second = world.coordinator.join(attempt, 1, owner())
    with record.of("report: PROCESSED and WRITTEN by a participant", "R1, R10"):
        world.write(again)
    with record.of("heartbeat: of a participant", "R10, R23"):
        world.coordinator.heartbeat(second)
    world.write(second)
    with record.of("complete: an attempt with two writers", "R10, R16"):
        world.coordinator.complete(attempt)
    with record.of("publish: an attempt with two writers", "R3, R10, R11"):
        world.coordinator.publish(attempt)


def checks(record: Record, world: World) -> None:
    def written(job: Job, number: int, writers: int) -> Attempt:
        attempt = world.begin(job, day(number), participants=writers)
        for participant in range(writers) if writers > 1 else ():
            world.write(world.coordinator.join(attempt, participant, owner()))
        if writers == 1:
            world.write(attempt)
        return attempt

    passing = world.job("own", checks=[row_count("own", at_least=1)])
    refusing = world.job("own", checks=[row_count("own", at_least=9)])
    for writers, of in ((1, ""), (2, ", with two writers")):
        attempt = written(passing, writers, writers)
        with record.of(f"check: it passes{of}", "R10, R14, R23"):
            world.coordinator.check(attempt)
        world.coordinator.publish(attempt)
    for writers, of in ((1, ""), (2, ", with two writers")):
        attempt = written(refusing, writers + 2, writers)
        with record.of(f"check: it fails{of}", "R10, R14, R23"), suppress(CheckFailed):
            world.coordinator.check(attempt)


def skips(record: Record, world: World) -> None:
    full = world.table("own", kind=TableKind.FULL)
    own = world.job("own", [full], inputs=[state(world.table("source")), previous(full)])
    for job in (world.job("source"), own):
        world.run(job, day(1))
    with record.of("skip: an epoch of a full table", "R3, R5, R10, R11, R13, R23, R24"):
        world.coordinator.skip(DOMAIN, "own", day(2), **WHY)
    orders = PostgresSource("orders", "orders", connection="shop", id_column="id")
    load = world.job("load", inputs=[orders])
    for number, again in ((1, ""), (2, ""), (2, " that was skipped before")):
        bounds = {
            "orders": SourceBounds(source="orders", span=Span(low=number - 1 or None, high=number, rows=1))
        }
        attempt = world.begin(load, day(number), owner(again or "scheduled"), sources=bounds)
        world.write(attempt)
        if number == 1:
            world.coordinator.publish(attempt)
            continue
        if again:
            with record.of("abort: a run of an epoch that was skipped before", "R10, I11"):
                world.coordinator.abort(attempt, "it failed")
            continue
        world.coordinator.abort(attempt, "it failed")
        with record.of("skip: an epoch of which an attempt has recorded bounds", "R3, R5, R10, I11"):
            world.coordinator.skip(DOMAIN, "load", day(number), **WHY)


def columns(record: Record, world: World) -> None:
    world.run(world.job("own"), day(1))
    own = world.job("own", [world.table("own", column_changes=[add("more", "long")])])
    world.coordinator.register(own)
    with record.of("begin: a job with one more column", "R3, R6, R11, R32"):
        world.begin(own, day(2))


def foreign(record: Record, world: World) -> None:
    table = world.table("own", on_foreign_commit="adopt")
    for job in (
        world.job("own", [table]),
        world.job("reader", inputs=[state(table, as_of=timedelta(days=9))]),
    ):
        world.coordinator.register(job)
    world.run(world.job("own", [table]), day(1))
    commit_outside(world, table)
    with record.of("recover: rows of another program are taken over", "R3, R11, R13, R17, R18"):
        recover(world.coordinator.context, DOMAIN)


def commit_outside(world: World, table: Table) -> None:
    """Let another program add a row to the first day."""
    added = rows([7]).append_column(EPOCH_COLUMN, [[barrier(1)]])
    memory: Any = world.formats["memory"]
    swap = memory.commit_foreign(table, "append", [(barrier(1), added)])
    world.pointers.move(DOMAIN, table.name, swap.expected, swap.new)


def ends(record: Record, world: World) -> None:
    own = world.job("own")
    world.run(own, day(1))
    world.begin(own, day(2))
    world.clock.advance(PAST_TTL)
    with record.of("retire: a job, whose last attempt was silent", "R6, R7, R10, R23"):
        world.coordinator.retire(DOMAIN, "own", **WHY)
    with record.of("revive", "R6, R7"):
        world.coordinator.revive(DOMAIN, "own")
    elsewhere = copy(world.formats)
    elsewhere.catalog = "postgresql://elsewhere/catalog"
    with record.of("recover: another catalog", "R33"):
        recover(world.worker(formats=elsewhere).context, DOMAIN, new_catalog=True)


def drops(record: Record, world: World) -> None:
    world.run(world.job("own"), day(1), [1])
    world.coordinator.retire(DOMAIN, "own", **WHY)
    plan = world.coordinator.plan_drop(DOMAIN, "job", "own")
    with record.of("drop: a job that is retired, until its names are free", "R7, R10, R24, R39"):
        world.coordinator.drop(DOMAIN, plan, **WHY)
    world.clock.advance(DEFAULTS.retention_grace + timedelta(seconds=1))
    with record.of("vacuum: a table that was dropped", "R24, R39"):
        world.retention.vacuum(DOMAIN)


def rollbacks(record: Record, world: World) -> None:
    for number in (1, 2):
        world.run(world.job("own"), day(number))
    context = world.coordinator.context
    with record.of("rollback", "R2, R3, R10, R11, R13, R24, R30"):
        rollback(context, plan_rollback(context, DOMAIN, 1), **WHY)


def leases(record: Record, world: World) -> None:
    for name in ("own", "other"):
        world.run(world.job(name), day(1))
    with record.of("lease: a cut", "R19, R23, R24"):
        lease = world.leases.cut(DOMAIN, ["own", "other"], name="report", owner="me")
    with record.of("lease: the cut that one holds, asked for again", "R23"):
        world.leases.cut(DOMAIN, ["own", "other"], name="report", owner="me")
    with record.of("lease: renewed", "R23"):
        lease = world.leases.renew(lease)
    world.clock.advance(timedelta(days=40))
    with record.of("lease: a name whose lease has ended", "R19, R23, R24"):
        lease = world.leases.cut(DOMAIN, ["own", "other"], name="report", owner="you")
    with record.of("lease: one table given up", "R23"):
        left = world.leases.release(lease, ["other"])
    assert left is not None
    with record.of("lease: dropped", "R23"):
        world.leases.drop(left)


def expired_states(record: Record, world: World) -> None:
    full = world.table("full", kind=TableKind.FULL)
    for job in (world.job("own"), world.job("full", [full])):
        for number in (1, 2, 3):
            world.run(job, day(number))
    with record.of("expire: a state of a full table", "R3, R11, R24"):
        world.retention.expire(DOMAIN, "full", barrier(1))
    with record.of("expire: a barrier of an incremental table", "R6, R24"):
        world.retention.expire(DOMAIN, "own", barrier(1))

    ranges = RetentionRecord().expiring(TableName("own"), day(2))
    world.store.transact(Transaction(domain=DOMAIN, updates=(Put(retention_key(DOMAIN), ranges),)))
    with record.of("expire: what one record had of the whole domain", "R6, R24"):
        world.retention.expire(DOMAIN, "own", barrier(2))


def vacuums(record: Record, world: World) -> None:
    own = world.job("own")
    for number in (1, 2):
        world.run(own, day(number))
    world.leases.cut(DOMAIN, ["own"], name="report", owner="me", ttl=timedelta(minutes=1))
    world.begin(own, day(3))
    world.clock.advance(DEFAULTS.retention_grace + PAST_TTL)
    with record.of(
        "vacuum: a lease and an attempt that were silent, a version that was superseded", "R23, R24"
    ):
        world.retention.vacuum(DOMAIN)
    world.run(own, day(4))
    world.clock.advance(DEFAULTS.orphan_grace + PAST_TTL)
    with record.of("vacuum: an attempt that no run begins again, and the next version", "R10, R16, R24"):
        world.retention.vacuum(DOMAIN)


def compactions(record: Record, world: World) -> None:  # noqa: ARG001 - it needs tables with files
    with quick_directory("epochs-operations-") as folder:
        template = folder / "template.db"
        template.write_bytes(empty_sqlite_file())
        own = Backend("iceberg", folder, template).world()
        own.store = RecordingStore(own.store, record)
        own.coordinator, own.retention = own.worker(), own.keeper()
        try:
            _compactions(record, own)
        finally:
            own.close()


def _compactions(record: Record, world: World) -> None:
    job = world.job("own", origin=barrier(29))
    for number in (30, 31):
        world.run(job, day(number))
    with record.of("compact: one unit", "R2, R3, R6, R10, R16, R33, R41"):
        world.retention.compact(DOMAIN, "own")
    key = compaction_key(DOMAIN, TableName("own"), "of a process that died")
    left = CompactionRecord(
        folder=f"file://{world.warehouse}/cascade/own/units/left/",
        format="iceberg",
        incarnation=world.store.read(DOMAIN, []).head.incarnation,
        by="ada",
    )
    world.store.transact(Transaction(domain=DOMAIN, updates=(Put(key, left),)))
    world.clock.advance(DEFAULTS.orphan_grace + PAST_TTL)
    with record.of("vacuum: a compaction that was silent for a day", "R10, R16, R23, R24, R41"):
        world.retention.vacuum(DOMAIN)


def moves(record: Record, world: World) -> None:
    world.run(world.job("own"), day(1))
    world.begin(world.job("own"), day(2))
    world.clock.advance(PAST_TTL)
    target = recording(record, "target")
    target.pointers.objects.update(world.pointers.objects)
    world.store.place = "source"  # type: ignore[attr-defined]
    try:
        with record.of("move a domain", "R6, R10, R23, R33"):
            move_domain(
                world.coordinator.context,
                target.coordinator.context,
                DOMAIN,
                source_place="source",
                target_place="target",
            )
    finally:
        target.close()
