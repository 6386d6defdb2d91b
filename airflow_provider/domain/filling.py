"""Adding tables to a committed epoch that lacks them: its job got them later, or lost them for a while (R7).

What is committed stays as it is, so that no reader of it minds. Pure decisions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_provider.domain.cut import edge_range
from airflow_provider.domain.epoch import AttemptRecord, Commitment, EpochRecord, Provenance
from airflow_provider.domain.errors import Unavailable
from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.staying import Stayed
from airflow_provider.domain.topology import Determinism, EpochJob, OnUpstreamRevision
from airflow_provider.domain.version import TableRecord


def tables_to_fill(
    epoch: EpochRecord | None,
    interval: Interval,
    tables: Mapping[TableName, Stamped[TableRecord] | None],
    *,
    job: EpochJob,
    skips: bool,
    stayed: Sequence[Stayed] = (),
) -> tuple[TableName, ...]:
    """The tables that lack *interval* although it is committed: the next revision is theirs alone.

    A skip is of the tables alone that lack the interval, also where their job has not committed it: the others may have
    it from the job before, or begin later.

    What was skipped is computed whole, and so is what a job computes otherwise each time, or from other rows than its
    commit: a table that is added reads nothing that the tables beside it have not.

    :param tables: the job's own and those that it reads.
    :param stayed: rows of the domain that are of an earlier revision than those beside them. An epoch that has some is
        computed whole, too: its commit names what they were computed from among what it has read itself.
    """
    committed = None if epoch is None else epoch.committed
    own = {table.name: tables.get(table.name) for table in job.outputs}
    lacking = tuple(
        sorted(
            name
            for name, stamped in own.items()
            if stamped is not None and stamped.record.progress.lacks(interval)
        )
    )
    if skips:
        return lacking if committed is not None or len(lacking) < len(own) else ()
    if committed is None or committed.skipped or not _computes_alike(job, interval, committed, tables):
        return ()
    if any(row.job == job.name and row.interval.overlaps(interval) for row in stayed):
        return ()
    return lacking


def skip_of_rest(
    job: JobName, interval: Interval, tables: Mapping[TableName, Stamped[TableRecord] | None]
) -> str:
    """Return the way out where *interval* of some *tables* of *job* was computed before it took them over.

    The job does not compute the others alone: what it would write beside them is not what is committed.

    :return: empty where no other lacks it, or none has it.
    """
    progress = {name: stamped.record.progress for name, stamped in tables.items() if stamped is not None}
    lacking = sorted(name for name, one in progress.items() if one.lacks(interval))
    if not lacking or not any(one.covers(interval) for one in progress.values()):
        return ""
    span = f"{interval.start.isoformat()}/{interval.end.isoformat()}"
    return f"`airflow epochs skip {job} {span} --reason …` skips the epoch for {', '.join(lacking)} alone"


def _computes_alike(
    job: EpochJob,
    interval: Interval,
    committed: Commitment,
    tables: Mapping[TableName, Stamped[TableRecord] | None],
) -> bool:
    """Whether *job* is deterministic, and *committed* has read all roots and ranges that it declares to read.

    Of a root that is not repeatable the same bounds may have other rows by now, which is not seen.
    """
    if job.determinism is not Determinism.DETERMINISTIC or (job.roots and not committed.names_roots):
        return False
    if not all(root.is_repeatable and committed.revision_of(root.name) for root in job.roots):
        return False
    inputs = {(read.table, read.kind, read.low, read.high) for read in committed.inputs}
    edges = [(edge, tables.get(edge.table)) for edge in job.edges]
    return all(
        stamped is not None and (edge.table, edge.kind, *edge_range(edge, interval, stamped.record)) in inputs
        for edge, stamped in edges
    )


def inputs_of_fill(
    epoch: str, recorded: Sequence[Provenance], resolved: Sequence[Provenance], lost: Sequence[Provenance]
) -> list[Provenance]:
    """What an attempt reads that adds tables to a committed *epoch*: what the commit has read.

    :param recorded: inputs of the commit. :param resolved: those of the declaration, as of now.
    :param lost: inputs of the commit that cannot be read again as they were. A newer version has the same rows, which
        their reader keeps from being computed again, unless it ignores that.
    :raises Unavailable: an input is lost whose rows may be others by now.
    """
    known = {(one.table, one.kind, one.low, one.high): one for one in recorded}
    read = [known.get((one.table, one.kind, one.low, one.high), one) for one in resolved]
    gone = [one for one in read if one in lost and one.on_upstream_revision is OnUpstreamRevision.IGNORE]
    if gone:
        raise Unavailable(
            f"{epoch} is committed, and tables that it lacks come from what its commit has read, which can be read no "
            "longer of " + ", ".join(f"{one.table} at {one.high.isoformat()}" for one in gone) + ".",
            next_step="leave these tables empty there (`airflow epochs skip`).",
            tables=tuple(one.table for one in gone),
            kept=(),
        )
    return [newer if older in lost else older for older, newer in zip(read, resolved, strict=True)]


def inputs_to_validate(attempt: AttemptRecord, epoch: EpochRecord) -> list[Provenance]:
    """The inputs of *attempt* that may have been computed again since they were read.

    What the commit has read that a fill adds tables to cannot be: the commit is its reader (R5). A fence that no longer
    tells its rewrites apart may say so all the same, for good, since a fill reads nothing newer.
    """
    if not attempt.fills or epoch.committed is None:
        return list(attempt.inputs)
    return [read for read in attempt.inputs if read not in epoch.committed.inputs]


def filled(before: Commitment | None, now: Commitment, fills: tuple[TableName, ...]) -> Commitment:
    """What is committed once *now* has added *fills* to what was committed *before*; *now* itself without any.

    It depends on all that its tables were computed from.
    """
    if before is None or not fills:
        return replace(now, fills=fills)
    roots = {**dict(now.root_revisions), **dict(before.root_revisions)}
    return replace(
        now,
        inputs=tuple(dict.fromkeys((*before.inputs, *now.inputs))),
        skipped=before.skipped,
        root_revisions=tuple(roots.items()),
        names_roots=before.names_roots,
        fills=fills,
    )


def beside(before: Commitment, now: Commitment) -> Commitment:
    """What is committed once *now* has computed an epoch again, while some tables keep rows of *before*.

    It depends on all that the rows were computed from. Of one range that was read again and again it remembers the
    first read and the last: what lies between was read after the first.
    """
    first = {
        (read.table, read.kind, read.low, read.high, read.on_upstream_revision): read
        for read in reversed(before.inputs)
    }
    kept = [read for read in before.inputs if read in first.values()]
    return replace(
        now,
        inputs=tuple(dict.fromkeys((*kept, *now.inputs))),
        root_revisions=tuple({**dict(before.root_revisions), **dict(now.root_revisions)}.items()),
        names_roots=now.names_roots and (before.names_roots or bool(before.skipped)),
    )
