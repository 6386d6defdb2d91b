"""Late files that a job does not read, although it has computed the epochs at whose places they lie (I11).

A late file belongs to the barrier whose begin noticed it, for all jobs that share the source. A job that has skipped
that barrier, or has computed it by another declaration, does not read it; nor does a job that has left the source.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_provider.coordination.commits.slices import committed_slices
from airflow_provider.coordination.commits.source_dependents import committed_source, open_source
from airflow_provider.coordination.commits.stayed_rows import rows_that_stayed
from airflow_provider.domain.epoch import EpochRecord
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import slice_writer, source_key, topology_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.source_bounds import Source, SourceKind, SourceRecord
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.stores.base import MetadataReader, pages


@dataclass(frozen=True, kw_only=True, slots=True)
class MissedFile:
    """A file at the place of *epoch*, which the job has computed.

    :param belongs_to: the epoch whose bounds have it, which the job has committed without it; None where the job has
        left the source. :param skipped: the job has skipped that epoch.
    """

    uri: str
    epoch: Interval
    belongs_to: Interval | None = None
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class MissedFiles:
    """The late files of *source* that *job* does not read. :param records: the newest bounds of *source*."""

    reader: MetadataReader
    domain: DomainName
    source_readers: SourceReaders
    source: Source
    job: JobRecord
    records: Sequence[SourceRecord]

    def found(self) -> Iterator[MissedFile]:
        """Yield them; what is within no bounds of a source that the job declares may still come, and is told elsewhere.

        :raises SourceUnavailable: the source does not answer.
        """
        epochs, written = self.epochs(), self._read_by_written_rows()
        computed = {epoch.interval for epoch in epochs.values() if written(epoch, self.source.name)}
        wanted = [record for record in self.records if record.interval in computed]
        if self.source.kind is not SourceKind.FILES or not wanted:
            return
        is_declared = any(source.name == self.source.name for source in self.job.sources)
        lying = self.source_readers.unread(self.source, wanted, wanted)[0]
        if not is_declared:
            lying += self._bound_in_vain(wanted, epochs, written)
        read = self.read(epochs.values()) if lying else set()
        holders = {
            file.uri: record.interval for record in reversed(self.records) for file in record.whole.files
        }
        for epoch, uri in lying:
            holder = holders.get(uri)
            if uri in read:
                continue
            if not is_declared:
                yield MissedFile(uri=uri, epoch=epoch)
            elif holder is not None and self._passes_by(epochs.get(holder), written):
                committed = epochs[holder].committed
                skipped = committed is not None and bool(committed.skipped)
                yield MissedFile(uri=uri, epoch=epoch, belongs_to=holder, skipped=skipped)

    def _bound_in_vain(
        self,
        records: Sequence[SourceRecord],
        epochs: Mapping[Interval, EpochRecord],
        written: Callable[[EpochRecord | None, str], int],
    ) -> list[tuple[Interval, str]]:
        """Files of newer bounds than their epochs stand on, such as those of a revision that failed.

        No begin reads them by the name of a source that the job has left.
        """
        return [
            (record.interval, file.uri)
            for record in records
            if record.interval
            and written(epochs[record.interval], self.source.name) != record.bounds.revision
            for file in record.whole.files
        ]

    def read_for_other_tables(self) -> Iterator[MissedFile]:
        """Yield what was read late for other tables than those that the job has taken over, which never get it.

        :raises SourceUnavailable: the source does not answer.
        """
        if self.source.kind is not SourceKind.FILES or not self.job.predecessors:
            return
        epochs = {
            (name, epoch.interval): epoch for name in self.job.writers for epoch in self._epochs_of(name)
        }
        told: set[str] = set()
        for table in self.job.outputs:
            for file in self._lacked_by(table.name, epochs):
                if file.uri not in told:
                    told.add(file.uri)
                    yield file

    def _lacked_by(
        self, table: TableName, epochs: Mapping[tuple[JobName, Interval], EpochRecord]
    ) -> Iterator[MissedFile]:
        """Yield late files that *epochs* have read without writing them to *table*, which had another job before."""
        slices = committed_slices(self.reader, self.domain, table)
        wrote = {(slice_writer(stamped.key), stamped.record.interval) for stamped in slices}
        if all(job == self.job.name for job, _ in wrote):
            return
        written = self._read_by_written_rows()
        computed = {at for (job, at) in wrote & epochs.keys() if written(epochs[job, at], self.source.name)}
        wanted = [record for record in self.records if record.interval in computed]
        lying = self.source_readers.unread(self.source, wanted, wanted)[0] if wanted else ()
        if not lying:
            return
        # An open epoch of the job itself is going to write all of its tables.
        writing = {
            key for key, epoch in epochs.items() if key[0] == self.job.name and epoch.committed is None
        }
        got = self.read([epoch for key, epoch in epochs.items() if key in wrote | writing])
        elsewhere = self.read([epoch for key, epoch in epochs.items() if key not in wrote | writing])
        for at, uri in lying:
            if uri in elsewhere and uri not in got:
                yield MissedFile(uri=uri, epoch=at)

    def _epochs_of(self, job: JobName) -> list[EpochRecord]:
        return [stamped.record for stamped in pages(self.reader, self.domain, EpochRecord, job)]

    def epochs(self) -> Mapping[Interval, EpochRecord]:
        """The epochs of the job, and of those whose tables it has taken over.

        Of an epoch that the job has skipped for some tables, since the others have it from the job before, that of the
        job before: it has read its files.
        """
        epochs: dict[Interval, EpochRecord] = {}
        for name in reversed(self.job.writers):
            for stamped in pages(self.reader, self.domain, EpochRecord, name):
                epoch = stamped.record
                done = epoch.committed
                if done is None or not (done.skipped and done.fills) or epoch.interval not in epochs:
                    epochs[epoch.interval] = epoch
        return epochs

    def read(self, epochs: Collection[EpochRecord]) -> set[str]:
        """Return the files that *epochs*, committed or open, stand on by all names of sources that the job has had."""
        found: set[str] = set()
        written = self._read_by_written_rows()
        for epoch in epochs:
            keys = [
                source_key(self.domain, name, epoch.interval.end, revision)
                for name in self.job.all_sources
                for revision in {written(epoch, name), open_source(epoch.attempt, name)} - {0}
            ]
            records = self.reader.read(self.domain, keys).records.values() if keys else ()
            found |= {file.uri for stamped in records for file in stamped.record.whole.files}
        return found

    def _read_by_written_rows(self) -> Callable[[EpochRecord | None, str], int]:
        """Return the lookup of a source's revision that an epoch's rows have read, beside rows of tables left since.

        Rows that stay in a table which the job still declares count: a file that is moved would come to them twice.
        """
        reading = self.reader.read(self.domain, [topology_key(self.domain)])
        declared = {table.name for table in self.job.outputs}
        stay = [
            row.interval
            for row in rows_that_stayed(reading, self.domain)
            if row.table in declared and row.job in self.job.writers
        ]

        def revision(epoch: EpochRecord | None, source: str) -> int:
            committed = None if epoch is None else epoch.committed
            is_left = committed is not None and source in committed.stayed_sources
            if is_left and epoch is not None and not any(epoch.interval.overlaps(row) for row in stay):
                return 0
            return committed_source(epoch, source)

        return revision

    def _passes_by(
        self, epoch: EpochRecord | None, written: Callable[[EpochRecord | None, str], int]
    ) -> bool:
        """Return True if *epoch* is committed, and neither its rows nor its open attempt read the source."""
        if epoch is None or epoch.committed is None or written(epoch, self.source.name):
            return False
        return not open_source(epoch.attempt, self.source.name)
