"""Skipping: an operator declares that an epoch will not be computed, and its readers go on (R5).

A skipped epoch is an epoch like others: begun, written and published by an attempt, which reads none of the job's
inputs. Its slice of an incremental table is empty; a full table has at its barrier what it had before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from airflow_provider.coordination.attempts.begin import Begin
from airflow_provider.coordination.attempts.bounds_provider import as_provider
from airflow_provider.coordination.attempts.end import abort
from airflow_provider.coordination.attempts.give_back import UnreadBounds, unread_bounds
from airflow_provider.coordination.attempts.publish import publish
from airflow_provider.coordination.attempts.read_input import read_input
from airflow_provider.coordination.attempts.renew import heartbeat
from airflow_provider.coordination.attempts.report import complete, processed, written
from airflow_provider.coordination.attempts.stage import stage
from airflow_provider.coordination.attempts.staging import place
from airflow_provider.coordination.commits.alter import copied_columns
from airflow_provider.coordination.commits.declare import registered
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.upkeep.unread import passed_over
from airflow_provider.domain.declaration import JobDeclaration
from airflow_provider.domain.epoch import AlreadyCommitted, AlreadyStaged, Attempt, Published
from airflow_provider.domain.errors import (
    EpochError,
    InvalidInput,
    OutcomeUnknown,
    StoreUnavailable,
)
from airflow_provider.domain.identifiers import RestatementId, validate_text
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import table_key
from airflow_provider.domain.topology import Job, Table
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.tables.checks import existing

if TYPE_CHECKING:
    import pyarrow as pa

Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True, slots=True)
class Skipped:
    """Outcome of a skip.

    :param published: the skipped epochs, each a commit of its own. :param left: epochs that were committed before,
        computed or skipped, and stay unchanged. :param unread: recorded data of the job's sources for the skipped
        epochs that later ones do not read: files at the epochs' own locations, data that other jobs have read there,
        and rows behind which later epochs went on. The job reads it when it computes the epoch after all.
    :param stalled: why commit groups that have waited for these epochs are not published yet.
    :param late: late files of earlier epochs that the next begin would have read: behind the skipped epochs they are
        beyond its lookback. No epoch reads them.
    """

    published: tuple[Published, ...]
    left: tuple[Interval, ...]
    unread: tuple[UnreadBounds, ...] = ()
    late: tuple[str, ...] = ()
    stalled: tuple[str, ...] = ()


def skip(context: Context, domain: str, job: str, span: Interval, *, reason: str, by: str) -> Skipped:
    """Skip every epoch of *job* in *span* that is not committed, in the order of time.

    Rows of increments and late files that an attempt without a commit has recorded are left to later epochs; data
    that is not left to them is named in the answer (I11).

    A full table gets a copy of its state at the barrier before, as soon as that is committed, also where earlier
    epochs are missing; the copy depends on it (R18).

    :param reason: why; kept with the commit and in the state log. :param by: its author.
    :raises UnknownName: no such job in the domain.
    :raises InvalidInput: a span that is not made of whole epochs, no reason, or a table that has no columns yet.
    :raises EpochBusy: an attempt computes one of them; those before it are skipped.
    :raises NotReady: the epoch before one is not committed, and a full table needs its state then.
    """
    require_text(reason=reason, by=by)
    declared = JobDeclaration.of(registered(context.store, domain, job)).job()
    for table in declared.outputs:
        _refuse_unwritten(context, declared, table)
    published, left = [], []
    unread: list[UnreadBounds] = []
    for epoch in declared.cadence.split(span):
        answer = _begin(context, declared, epoch, reason.strip(), by.strip())
        if isinstance(answer, AlreadyCommitted):
            left.append(epoch)
        else:
            published.append(_ended(context, answer, publish))
        unread += unread_bounds(context, declared, epoch, reason.strip(), by.strip())
    late = passed_over(context.store, declared, span, SourceReaders()) if published else ()
    return Skipped(published=tuple(published), left=tuple(left), unread=tuple(unread), late=late)


def require_text(**texts: str) -> None:
    """:raises InvalidInput: one of *texts* is empty."""
    for field, words in texts.items():
        if not validate_text(words, field).strip():
            raise InvalidInput(field=field, value=words, expected="words that others will understand later")


def _refuse_unwritten(context: Context, job: Job, table: Table) -> None:
    """:raises InvalidInput: the columns of *table* are not known: it was not dropped, it has no commit."""
    key = table_key(table.domain, table.name)
    stamped = context.store.read(table.domain, [key]).get(key)
    is_known = stamped is not None and stamped.record.ref is not None
    if not is_known and context.formats[table.format].describe(table) is None:
        raise InvalidInput(
            f"table {table.name!r} has no columns yet: no epoch was ever committed to it.",
            next_step=_first_rows(job, table),
            field="job",
            value=table.name,
            expected="a job whose tables were written once",
        )


def _first_rows(job: Job, table: Table) -> str:
    """Return how a table gets the columns that a skip needs, or why no skip is needed."""
    if any(edge.table == table.name for edge in job.edges):
        return "declare the job's origin where its first rows come: it may move forward while nothing is committed."
    if job.origin is None:
        return (
            "run the job for any epoch, once its code is mended: its tables begin at the first one that commits, and "
            "nothing waits for those before."
        )
    return (
        "run the job for any other epoch first, then skip this one; or, while nothing is committed, declare the origin "
        "where its first rows come."
    )


def owner_of_skip(by: str, epoch: Interval) -> Owner:
    """Return the owner of the commit by which *by* skips *epoch*."""
    return Owner(dag_id=f"skip by {by}", run_id=str(epoch))


def copy_within(
    context: Context, restatement: RestatementId, job: Job, epoch: Interval, *, reason: str, by: Owner
) -> AlreadyStaged | AlreadyCommitted:
    """Skip *epoch* once more within *restatement*, which publishes it; what is staged and still holds stays.

    :raises NotReady: the epoch before is a member, and not staged. Others are those of begin and of stage.
    """
    answer = replace(_request(context, job, epoch, by, reason), restatement=restatement).run()
    return _ended(context, answer, _stage) if isinstance(answer, Attempt) else answer


def _begin(context: Context, job: Job, epoch: Interval, reason: str, by: str) -> Attempt | AlreadyCommitted:
    answer = _request(context, job, epoch, owner_of_skip(by, epoch), reason).run()
    if isinstance(answer, AlreadyStaged):  # only within a restatement
        raise AssertionError  # noqa: TRY004 - no type of a caller's value
    return answer


def _request(context: Context, job: Job, epoch: Interval, by: Owner, reason: str) -> Begin:
    asking = replace(by, request_id=context.request_id())
    return Begin(context, job, epoch, asking, as_provider(None), 1, skips=reason)


def _stage(context: Context, attempt: Attempt) -> AlreadyStaged:
    complete(context, attempt)
    return stage(context, attempt)


def _ended(context: Context, attempt: Attempt, end: Callable[[Context, Attempt], Answer]) -> Answer:
    """Write the output of the skip *attempt*, and return what *end* returns of it."""
    try:
        for sink in attempt.sinks:
            table_format = context.formats[sink.format]
            info = existing(copied_columns(context, attempt, sink.name), sink)
            staged = place(context.formats, attempt, sink.name)
            rows = _rows(context, attempt, sink, info.schema)
            files = list(table_format.task_writer(staged, info)(rows))
            processed(context, attempt, sink.name)
            written(context, attempt, sink.name, table_format.describe_output(staged, info, files))
        return end(context, attempt)
    except (StoreUnavailable, OutcomeUnknown):
        raise  # the attempt may have come to its end: skipping again finds its outcome
    except EpochError as error:
        abort(context, attempt, f"{type(error).__name__}: {error.message}")
        raise


def _rows(context: Context, attempt: Attempt, sink: Table, schema: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a skipped slice: none; of a full table those of the barrier before.

    :param schema: the columns to read it with.
    """
    if not sink.kind.copies_when_skipped or all(read.table != sink.name for read in attempt.inputs):
        return  # also a full table that has the epoch, where the attempt adds another one
    state, _ = read_input(context, attempt, sink.name)
    if state.ref is None:
        return
    table_format = context.formats[state.ref.format]
    columns = [name for name in table_format.arrow_schema(schema).names if name != EPOCH_COLUMN]
    for piece in table_format.scan(state, schema, columns):
        heartbeat(context, attempt)
        yield from piece.to_batches()
