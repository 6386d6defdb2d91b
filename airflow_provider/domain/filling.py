"""Fill a committed epoch: add tables that lack it, since their job got them later, or lost them for a while (R7).

The committed rows stay as they are, so that no reader is affected. Pure decisions; see docs/decisions/new-output.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from shlex import quote

from airflow_provider.domain.cut import edge_range
from airflow_provider.domain.epoch import AttemptRecord, Commitment, EpochRecord, Provenance
from airflow_provider.domain.errors import Unavailable
from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.rewrites import rewritten_since
from airflow_provider.domain.staying import Stayed
from airflow_provider.domain.topology import Determinism, Job, OnUpstreamRevision
from airflow_provider.domain.version import RewriteLog, TableRecord


def tables_to_fill(
    epoch: EpochRecord | None,
    interval: Interval,
    tables: Mapping[TableName, Stamped[TableRecord] | None],
    *,
    job: Job,
    skips: bool,
    stayed: Sequence[Stayed] = (),
) -> tuple[TableName, ...]:
    """Return the tables that lack *interval* although it is committed: the next revision writes these alone.

    A skip applies only to the tables that lack the interval, also where their job has not committed it: the others may
    have it from an earlier job, or begin later.

    An epoch that was skipped is computed whole. So is an epoch of a job that is not deterministic, or that now declares
    other inputs than the commit has read: rows of an added table must come from what the tables beside it were
    computed from.

    :param tables: records of the job's outputs and inputs.
    :param stayed: rows of the domain that are of an earlier revision than those beside them. An epoch with such rows is
        computed whole, too: its commit lists the inputs of these rows beside its own, which cannot be told apart.
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
        # A first commit that skips all tables is an ordinary skip, not a fill.
        return lacking if committed is not None or len(lacking) < len(own) else ()
    if committed is None or committed.skipped or not _computes_alike(job, interval, committed, tables):
        return ()
    if any(row.job == job.name and row.interval.overlaps(interval) for row in stayed):
        return ()
    return lacking


def skip_of_rest(
    job: JobName, interval: Interval, tables: Mapping[TableName, Stamped[TableRecord] | None]
) -> str:
    """Return the next step where *interval* of some *tables* was computed before *job* took them over.

    The job does not compute the other tables alone: its rows would not fit those that another job has committed.

    :return: the command that skips the tables that lack the interval; empty if no table lacks it, or no table has it.
    """
    progress = {name: stamped.record.progress for name, stamped in tables.items() if stamped is not None}
    lacking = sorted(name for name, table in progress.items() if table.lacks(interval))
    if not lacking or not any(table.covers(interval) for table in progress.values()):
        return ""
    span = f"{interval.start.isoformat()}/{interval.end.isoformat()}"
    return (
        f"`airflow epochs skip {quote(job)} {span} --reason …` skips the epoch for {', '.join(lacking)} alone"
    )


def _computes_alike(
    job: Job,
    interval: Interval,
    committed: Commitment,
    tables: Mapping[TableName, Stamped[TableRecord] | None],
) -> bool:
    """Return True if *job* is deterministic, and *committed* has read all sources and ranges that the job declares.

    A source that is not repeatable does not qualify: the same bounds may have other rows by now, unnoticed.
    """
    if job.determinism is not Determinism.DETERMINISTIC or (job.sources and not committed.names_sources):
        return False
    if not all(source.is_repeatable and committed.revision_of(source.name) for source in job.sources):
        return False
    inputs = {(read.table, read.kind, read.low, read.high) for read in committed.inputs}
    edges = [(edge, tables.get(edge.table)) for edge in job.edges]
    return all(
        stamped is not None and (edge.table, edge.kind, *edge_range(edge, interval, stamped.record)) in inputs
        for edge, stamped in edges
    )


def inputs_of_fill(
    epoch: str,
    recorded: Sequence[Provenance],
    resolved: Sequence[Provenance],
    lost: Sequence[Provenance],
    logs: Mapping[TableName, Stamped[RewriteLog]],
) -> list[Provenance]:
    """Return the inputs of an attempt that adds tables to a committed *epoch*: those that the commit has read.

    :param recorded: inputs of the commit. :param resolved: inputs of the declaration, as of now.
    :param lost: inputs of the commit whose version cannot be claimed any more. A newer version has the same rows: the
        committed reader keeps them from being computed again, unless its edge ignores revisions, or was released.
    :param logs: of the tables of *resolved*.
    :raises Unavailable: the rows of a lost input may have changed: it is read by such an edge.
    """
    known = {(past.table, past.kind, past.low, past.high): past for past in recorded}
    read = [known.get((now.table, now.kind, now.low, now.high), now) for now in resolved]
    gone = [past for past in read if past in lost and _may_have_changed(past, logs[past.table])]
    if gone:
        raise Unavailable(
            f"{epoch} is committed, and tables that it lacks come from what its commit has read, which can be read no "
            "longer of " + ", ".join(f"{past.table} at {past.high.isoformat()}" for past in gone) + ".",
            next_step="leave these tables empty there (`airflow epochs skip`).",
            tables=tuple(past.table for past in gone),
        )
    return [newer if older in lost else older for older, newer in zip(read, resolved, strict=True)]


def _may_have_changed(read: Provenance, log: Stamped[RewriteLog]) -> bool:
    """Return True if the rows of *read* may be others now, although a committed epoch has read them."""
    if read.on_upstream_revision is OnUpstreamRevision.HOLD:
        return rewritten_since(log, read.csn, read.low, read.high) is not None
    return read.on_upstream_revision is OnUpstreamRevision.IGNORE


def inputs_to_validate(attempt: AttemptRecord, epoch: EpochRecord | None) -> list[Provenance]:
    """Return the inputs of *attempt* that may have been computed again since they were read.

    Inputs that a fill shares with the commit cannot: the commit is their reader (R5). They must not be validated: a
    fence that has merged its rewrites may report one all the same, and for good, since a fill reads nothing newer.
    """
    if not attempt.fills or epoch is None or epoch.committed is None:
        return list(attempt.inputs)
    return [read for read in attempt.inputs if read not in epoch.committed.inputs]


def filled(before: Commitment | None, now: Commitment, fills: tuple[TableName, ...]) -> Commitment:
    """Return the commitment after *now* has added the tables *fills* to *before*; *now* itself without any.

    It names the inputs and sources of both, since the rows of both are in the epoch's tables.
    """
    if before is None or not fills:
        return replace(now, fills=fills)
    sources = {**dict(now.source_revisions), **dict(before.source_revisions)}
    return replace(
        now,
        inputs=tuple(dict.fromkeys((*before.inputs, *now.inputs))),
        skipped=before.skipped,
        source_revisions=tuple(sources.items()),
        names_sources=before.names_sources,
        fills=fills,
    )


def beside(before: Commitment, now: Commitment) -> Commitment:
    """Return the commitment after *now* has computed an epoch again, while some tables keep rows of *before*.

    It names the inputs and sources of all these rows. Of a range that was read many times it keeps the first read and
    the last: a rewrite that a read between them missed, the first one has missed, too.
    """
    first = {
        (read.table, read.kind, read.low, read.high, read.on_upstream_revision): read
        for read in reversed(before.inputs)
    }
    kept = [read for read in before.inputs if read in first.values()]
    own = dict(now.source_revisions)
    return replace(
        now,
        inputs=tuple(dict.fromkeys((*kept, *now.inputs))),
        source_revisions=tuple({**dict(before.source_revisions), **own}.items()),
        stayed_sources=tuple(name for name, _ in before.source_revisions if name not in own),
        names_sources=now.names_sources and (before.names_sources or bool(before.skipped)),
    )
