"""One attempt at one epoch inside the Spark program: its reads, its writes and its end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from airflow_provider.domain.epoch import Attempt, Published
from airflow_provider.domain.errors import (
    EpochError,
    Fenced,
    OutcomeUnknown,
    RetryableError,
    StoreUnavailable,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.source_bounds import Source, SourceBounds
from airflow_provider.domain.topology import Job, Table
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.spark import drafts, interruption, reads, refusals, session, sinks, sql_checks
from airflow_provider.spark.added_files import add_files, path_columns
from airflow_provider.spark.heartbeat import Heartbeat
from airflow_provider.tables.capabilities import TableCapability, refuse_without

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider.coordination.attempts.sql_checks import QueryResult, Readable
    from airflow_provider.coordination.service import EpochService
    from airflow_provider.domain.cut import State
    from airflow_provider.domain.version import Committable
    from airflow_provider.tables.added_files import FileScan
    from airflow_provider.tables.base import TableFormat, TableInfo
    from airflow_provider.tables.filters import FilterTuple

log = logging.getLogger(__name__)


class EpochRun:
    """An epoch being computed; use it in a ``with`` block, which ends it.

    At the block's end every output must be written, and the job's checks must hold; then the epoch is published,
    staged for its restatement, or left WRITTEN for the submitter to publish. An exception aborts the attempt and
    propagates. The exception to this: an error of the family *retry* after the output is complete leaves the attempt
    open, and the next try of the same run publishes it.

    :param publishes: publish at the end of the block; False leaves that to the submitter.
    """

    def __init__(
        self,
        service: EpochService,
        job: Job,
        attempt: Attempt,
        *,
        spark: SparkSession | None = None,
        publishes: bool = True,
    ) -> None:
        self.job = job
        self.attempt = attempt
        self.published: Published | None = None
        self.entered, self._service = False, service
        self._given_spark = spark
        self._ready_spark: SparkSession | None = None
        self._publishes = publishes
        writer = f"{attempt.token}-{attempt.participant}-{attempt.participant_attempt}"
        self._tag = f"epochs-{attempt.job}-{writer}".replace(",", "_")
        self._heartbeat = Heartbeat(self._service, attempt, self._interrupt)
        self._started: set[str] = set()
        self._written: set[str] = set()
        self._used_sources: dict[str, tuple[Source, SourceBounds]] = {}
        self._source_readers = SourceReaders(service.connections)
        self._guard = threading.Lock()

    @property
    def interval(self) -> Interval:
        """The epoch's own interval, ``[start, end)`` in UTC."""
        return self.attempt.interval

    @property
    def participants(self) -> int:
        """Number of participants that write the epoch together; 1 for most epochs."""
        return self.attempt.participants

    @property
    def participant(self) -> int:
        """Number of this participant, from 0; a job divides its work by it."""
        return self.attempt.participant

    @property
    def spark(self) -> SparkSession:
        """The Spark session; started at its first use if the program has none."""
        if self._ready_spark is None:
            self._ready_spark = session.session(self._given_spark)
        return self._ready_spark

    def read(
        self,
        table: str | Table,
        *,
        columns: Sequence[str] | None = None,
        filters: Sequence[FilterTuple] | None = None,
        with_epoch: bool = False,
        schema: str | None = None,
    ) -> DataFrame:
        """Return the rows that the job's edge on *table* reads: fixed when the epoch began, the same in each attempt.

        :param columns: names of the columns to return; None for all. Where Python reads the files (docs/decisions/
            reads-on-s3.md), only these are read; Spark's own readers read no others than a query uses, anyway.
        :param filters: tuples of column, operator and value, such as ``("day", ">=", date(2024, 1, 1))``, which all
            hold for the rows returned. Without Iceberg's runtime they keep Spark from opening files that have no such
            row, which a condition of the query does not (docs/decisions/filters.md).
        :param with_epoch: also return the column ``_epoch``, the barrier of each row's epoch.
        :param schema: columns, in Spark's DDL, of a table that does not exist yet (the first epoch of a job
            that reads its own past); ignored if the table exists.
        :raises InvalidInput: the job declares no edge on *table*; it has no such column; or a filter does not fit it.
        :raises LeaseExpired: the claim on the inputs has ended. :raises Fenced: a newer attempt exists.
        """
        name = _name(table)
        self.attempt.input(name)
        self._check()
        state, known = self._service.input(self.attempt, name)
        if state.format is not None:
            table_format = self._format(state.format, name)
            return reads.dataframe(
                self.spark,
                table_format,
                state,
                known,
                names=columns,
                filters=filters,
                with_epoch=with_epoch,
            )
        return reads.no_table(self.spark, name, schema, names=columns, filters=filters, with_epoch=with_epoch)

    def source_files(self, source: str) -> list[str]:
        """Return the URIs of the files of *source* that the epoch reads, as its first begin recorded them.

        :raises InvalidInput: the job declares no such source, or the source is not files.
        :raises Unavailable: a file has changed or is gone since.
        """
        declared, bounds = self._source(source, reads_files=True)
        self._heartbeat.check()
        self._use(declared, bounds)
        return [file.uri for file in bounds.files]

    def read_source(self, source: str) -> DataFrame:
        """Return the rows of *source*, an external table, within the bounds that the epoch's first begin recorded.

        :raises InvalidInput: the job declares no such source, or the source is files.
        :raises Unavailable: the source no longer has the recorded rows.
        :raises SourceUnavailable: the source does not answer.
        :raises LeaseExpired: the claim on the inputs has ended. :raises Fenced: a newer attempt exists.
        """
        declared, bounds = self._source(source, reads_files=False)
        self._check()
        self._use(declared, bounds)
        return reads.source_dataframe(self.spark, self._source_readers, declared, bounds)

    def _source(self, name: str, *, reads_files: bool) -> tuple[Source, SourceBounds]:
        """Return the declaration and the recorded bounds of source *name*.

        :raises InvalidInput: an unknown source, or one of the kind that the other method reads.
        """
        declared = next((source for source in self.job.sources if source.name == name), None)
        bounds = next((recorded for recorded in self.attempt.sources if recorded.source == name), None)
        if declared is None or bounds is None:
            raise refusals.unknown_source(self.attempt, name)
        if declared.has_spans == reads_files:
            raise refusals.read_otherwise(declared)
        return declared, bounds

    def _use(self, source: Source, bounds: SourceBounds) -> None:
        """Check that the source still has what was recorded.

        The end of the epoch checks again: Spark reads lazily, and a file may change between this call and the read.
        """
        self._source_readers.check_unchanged(source, bounds)
        self._used_sources[source.name] = (source, bounds)

    def write(self, table: str | Table, df: DataFrame) -> None:
        """Compute *df*, which may be empty, and stage its rows as the epoch's slice of *table*; once for each table.

        Reports PROCESSED when Spark is done, and WRITTEN with the committable that publish will commit.

        :raises InvalidInput: the job does not own *table*, *table* was written before, or *df* is no DataFrame.
        :raises SchemaMismatch: a column does not fit the table's; names it.
        :raises LeaseExpired: the claim on the inputs ended before the rows were written.
        :raises Fenced: a newer attempt exists.
        """
        sink = self.attempt.sink(_name(table))
        sinks.check_dataframe(df)
        with self._once(sink.name):
            if self._is_adopted(sink):
                return
            self._check()
            table_format = self._format(sink.format, sink.name)
            with self._interruptible():
                known = self._service.columns(self.attempt, sink.name)
                info = sinks.target(df, sink, table_format, known, keep=self._siblings_use(known))
                place = self._service.place(self.attempt, sink.name)
                files = sinks.stage(df, place, info, table_format)
            self._report(sink, lambda: table_format.describe_output(place, info, files))

    def add_files(
        self,
        table: str | Table,
        files: Sequence[str] | FileScan,
        *,
        in_paths: str | None = None,
    ) -> None:
        """Take Parquet *files* of another program as the epoch's slice of *table*: nothing is copied or rewritten.

        All rows of the files are of this epoch. It counts as the write of *table*, and reports as :meth:`write` does.
        The first files of a table decide its columns. The files stay their owner's: no file is ever deleted, and from
        now on none may be changed.

        :param files: URIs or absolute paths, such as ``epoch.source_files("old")``; or a scan of another Iceberg
            table by pyiceberg, whose filter takes whole files.
        :param in_paths: columns, in Spark's DDL, whose values are in the folders' names (``region=eu``); each is one
            of the table's ``partition_by``.
        :raises InvalidInput: as :meth:`write`; or a file lies in the table's own folder, is named twice, or has a type
            that readers of Iceberg tables do not all read alike; or the scan takes parts of files; or a file is missing
            or no Parquet.
        :raises SchemaMismatch: the files have columns that the table lacks, or others; names the first.
        :raises LeaseExpired: as :meth:`write`. :raises Fenced: likewise.
        """
        sink = self.attempt.sink(_name(table))
        with self._once(sink.name):
            if self._is_adopted(sink):
                return
            self._check_entered()
            table_format = self._format(sink.format, sink.name)
            columns = {} if in_paths is None else path_columns(self.spark, in_paths, sink)
            keep = self._siblings_use(self._service.columns(self.attempt, sink.name))
            describe = add_files(
                self._service, self.attempt, sink, table_format, files, in_paths=columns, keep=keep
            )
            self._report(sink, describe)

    @contextmanager
    def draft(self, table: str | Table, *, schema: str | None = None, empty: bool = False) -> Iterator[str]:
        """Yield the name of a private table; its rows at the block's end are the epoch's slice of *table*.

        .. code-block:: python

            with epoch.draft("accounts") as accounts:
                epoch.spark.sql(f"MERGE INTO {accounts} USING changes ON … WHEN MATCHED THEN …")

        Any number of INSERT, UPDATE, DELETE and MERGE statements, by Iceberg's own Spark runtime. The draft of a full
        table begins with the rows that the job's edge ``previous(table)`` reads, the draft of an incremental table
        with no rows. It counts as the write of *table*, and reports as :meth:`write` does. An exception in the block
        removes the draft.

        :param schema: columns, in Spark's DDL; needed while the table does not exist.
        :param empty: begin with no rows; required for a full table without that edge.
        :raises InvalidInput: as :meth:`write`; a format or warehouse without drafts; a session without the runtime;
            or the statements left the draft in a form that a slice cannot have.
        :raises SchemaMismatch: *schema* does not fit the table, or statements changed the draft's columns.
        :raises LeaseExpired: as :meth:`write`. :raises Fenced: likewise.
        """
        sink = self.attempt.sink(_name(table))
        if not isinstance(empty, bool):
            raise refusals.no_switch("empty", empty)
        with self._once(sink.name):
            self._check()
            base = None if empty else self._base_of(sink)
            table_format = drafts.drafting(self._format(sink.format, sink.name), sink)
            known = self._service.columns(self.attempt, sink.name)
            keep = self._siblings_use(known)
            info = drafts.target(self.spark, schema, sink, table_format, known, keep=keep)
            place = self._service.place(self.attempt, sink.name)
            with self._interruptible():
                draft = drafts.opened(self.spark, table_format, place, info, base)
            committable: Committable | None = None
            try:
                with self._interruptible(), drafts.run_once(self.spark, self.job.sources):
                    yield drafts.name_of(draft)
                    if self._is_adopted(sink):
                        return
                    session.check(self.spark)
                    copied = drafts.copied(self.spark, table_format, draft)
                committable = self._report(sink, lambda: drafts.described(table_format, draft, copied))
            finally:
                table_format.close_draft(draft, committable)

    def _is_adopted(self, sink: Table) -> bool:
        """Return whether *sink* is complete from an earlier attempt, so that nothing is to be written."""
        if self.attempt.adopted:
            log.info("%s of %s is complete from an earlier attempt", sink.name, self.attempt)
        return self.attempt.adopted

    def _report(self, sink: Table, describe: Callable[[], Committable]) -> Committable:
        """Report PROCESSED, describe the output, and report it WRITTEN.

        :raises LeaseExpired: the claim on the inputs has ended: rows computed after that may come from inputs that
            retention has deleted meanwhile (R22).
        """
        self._heartbeat.check()
        self._service.processed(self.attempt, sink.name)
        committable = describe()
        self._service.written(self.attempt, sink.name, committable)
        return committable

    def _base_of(self, sink: Table) -> State | None:
        return drafts.base_of(self._service, self.attempt, sink)

    def __enter__(self) -> Self:
        self.entered = True
        self._heartbeat.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                self.abandon(error)
                return
            self._end()
        finally:
            self._heartbeat.stop()

    def offered(self) -> Iterator[Self]:
        """Yield this run; refuse to go on if the caller did not enter it, since its epoch would stay open.

        :raises InvalidInput: the caller asks for the next epoch without a block for this one.
        """
        try:
            yield self
        finally:
            if not self.entered:
                self.abandon(refusals.not_entered(self.attempt))
        if not self.entered:
            raise refusals.not_entered(self.attempt)

    def abandon(self, error: BaseException) -> None:
        """Abort the attempt because of *error*; never raises, so that the caller sees *error* itself."""
        if isinstance(error, Fenced):
            return
        try:
            self._service.abort(self.attempt, reason := refusals.reason_of(error))
            log.warning("Aborted: %s: %s", self.attempt, reason)
        except EpochError as problem:
            log.warning("Not aborted: %s: %s", self.attempt, problem)

    def _end(self) -> None:
        is_complete = self.attempt.adopted
        try:
            self._check_complete()
            self._service.check(self.attempt, self._answer)
            if not is_complete:
                self._service.complete(self.attempt)
                is_complete = True
            if self._publishes and self.attempt.restatement is not None:
                log.info("staged: %s", self._service.stage(self.attempt))
            elif self._publishes:
                self.published = self._service.publish(self.attempt)
                log.info("Published at CSN %d: %s", self.published.csn, self.attempt)
        except (StoreUnavailable, OutcomeUnknown):
            # The store may have taken the commit although no answer came. A retry finds the epoch published, or adopts
            # its complete output.
            raise
        except Exception as problem:
            if is_complete and isinstance(problem, RetryableError):
                log.warning(
                    "%s stays open, and its next try publishes what it wrote: %s", self.attempt, problem
                )
            else:
                self.abandon(problem)
            raise

    def _answer(self, sql: str, tables: Mapping[str, Readable]) -> QueryResult:
        """Run a check's SQL in the session that computed the rows."""
        with self._interruptible():
            return sql_checks.spark_result(self.spark, sql, tables)

    def _siblings_use(self, known: TableInfo | None) -> bool:  # noqa: ARG002 - for the run of a participant
        """Return whether other participants of this attempt have WRITTEN rows for table *known* as it is."""
        return False

    def _check_complete(self) -> None:
        self._heartbeat.check()
        for source, bounds in self._used_sources.values():
            self._source_readers.check_unchanged(source, bounds)
        if not self.attempt.adopted and self._written != {sink.name for sink in self.attempt.sinks}:
            raise refusals.not_written(self.attempt, self._written)

    def _format(self, name: str, table: str) -> TableFormat:
        table_format = self._service.formats[name]
        refuse_without(TableCapability.SHARED_FILES, table_format, table)
        return table_format

    def _check(self) -> None:
        self._check_entered()
        session.check(self.spark)

    def _check_entered(self) -> None:
        if not self.entered:
            raise refusals.not_entered(self.attempt)
        self._heartbeat.check()

    @contextmanager
    def _once(self, table: str) -> Iterator[None]:
        """Let one write of *table* succeed; after a failed write another may begin."""
        with self._guard:
            if table in self._started:
                raise refusals.written_twice(self.attempt, table)
            self._started.add(table)
        try:
            yield
        except BaseException:
            self._started.discard(table)
            raise
        self._written.add(table)

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Run Spark work, which a newer attempt interrupts.

        If the attempt is over, its error replaces that of Spark, which is only the effect of the interruption.
        """
        try:
            with interruption.marked(self.spark, self._tag):
                yield
        except Exception as error:
            try:
                self._heartbeat.check()
            except EpochError as over:
                raise over from error
            raise

    def _interrupt(self) -> None:
        if self._ready_spark is not None:
            with suppress(Exception):  # Spark may be gone
                interruption.interrupt(self._ready_spark, self._tag)


def _name(table: str | Table) -> str:
    return table.name if isinstance(table, Table) else table
