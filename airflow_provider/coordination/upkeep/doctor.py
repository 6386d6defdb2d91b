"""Diagnosis of a domain: its records against its tables, and orphaned output. Read-only (R16, R17, R33)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from shlex import quote

from airflow_provider.coordination.commits.adopt import foreign_span
from airflow_provider.coordination.commits.catch_up import behind_of
from airflow_provider.coordination.commits.dependents import refuse_dependents
from airflow_provider.coordination.commits.inactive_jobs import inactive_jobs
from airflow_provider.coordination.commits.places import WrongCatalog, WrongWarehouse, refuse_elsewhere_of
from airflow_provider.coordination.commits.pointers import as_recorded, compare_pointer, declared_tables
from airflow_provider.coordination.commits.stayed_rows import rows_that_stayed
from airflow_provider.coordination.reading.outdated import outdated_tables
from airflow_provider.coordination.retrying_reader import retrying_reader
from airflow_provider.coordination.upkeep.audit import missing_files, stale_reads
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.coordination.upkeep.failed_before import failed_before
from airflow_provider.coordination.upkeep.holes import holes
from airflow_provider.coordination.upkeep.in_vain import in_vain, out_of_order, owners_of
from airflow_provider.coordination.upkeep.orphans import orphans
from airflow_provider.coordination.upkeep.symptom import Examination, Symptom
from airflow_provider.coordination.upkeep.unread import abandoned, unread
from airflow_provider.domain.cut import shown_states
from airflow_provider.domain.defaults import DEFAULTS, Defaults
from airflow_provider.domain.epoch import EpochState, LockRecord, has_expired
from airflow_provider.domain.errors import (
    DependentReaders,
    EpochError,
    ForeignCommit,
    RetryableError,
    Unavailable,
    UnknownName,
)
from airflow_provider.domain.identifiers import DomainName, JobName, TableName, domain_name
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.lease import LeaseRecord
from airflow_provider.domain.records import Kind, Stamped, table_key, topology_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.topology import OnForeignCommit, OnRerun, Table
from airflow_provider.domain.topology_record import MoveState
from airflow_provider.domain.version import TOLD_APART_SINCE, TableRecord
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.stores.base import MetadataReader, pages
from airflow_provider.tables.factory import TableFormats
from airflow_provider.tables.pointer_status import Compared, PointerStatus
from airflow_provider.tables.projection import roll_back, stopped


def examine(
    reader: MetadataReader,
    formats: TableFormats,
    domain: str,
    *,
    defaults: Defaults = DEFAULTS,
    source_readers: SourceReaders | None = None,
) -> Examination:
    """Compare the records of *domain* with its tables, and report stuck epochs and orphaned output; read-only.

    May be called at any time, by several at once, beside anything.

    :param source_readers: asks sources for data that no epoch reads; by default those that need no connection.
    :raises UnknownName: nothing is registered in the domain.
    :raises StoreUnavailable: the store, the catalog or the warehouse did not answer.
    """
    name, asking = domain_name(domain), retrying_reader(reader, defaults=defaults)
    reading = asking.read(name, [topology_key(name)])
    if reading.get(topology_key(name)) is None:
        raise UnknownName.of_empty(domain, what="job")
    doctor = _Doctor(asking, formats, name, defaults, source_readers or SourceReaders())
    return Examination(
        domain=name,
        csn=reading.head.csn,
        incarnation=reading.head.incarnation,
        at=reading.now,
        symptoms=tuple(doctor.symptoms()),
    )


@dataclass(frozen=True, slots=True)
class _Doctor:
    reader: MetadataReader
    formats: TableFormats
    domain: DomainName
    defaults: Defaults
    source_readers: SourceReaders

    def symptoms(self) -> Iterator[Symptom]:
        elsewhere = [*self._elsewhere()]
        if elsewhere:  # any further finding would be about files of another domain
            yield from elsewhere
            return
        looks: tuple[Callable[[], Iterator[Symptom]], ...] = (
            self._moves,
            self._commits,
            self._tables,
            self._attempts,
            self._waits,
            self._failed_before,
            self._holes,
            self._leases,
            self._orphans,
            self._unread,
            self._behind,
            self._stale_reads,
            self._missing_files,
        )
        for look in looks:
            yield from look()

    def _command(self, words: str) -> str:
        return f"`airflow epochs {words} --domain {quote(self.domain)}`"

    def _elsewhere(self) -> Iterator[Symptom]:
        """Report another warehouse or catalog: the folder was moved or copied, or a setting is wrong."""
        try:
            refuse_elsewhere_of(self.reader, self.domain, self.formats)
        except (WrongWarehouse, WrongCatalog) as error:
            what = "files" if isinstance(error, WrongWarehouse) else "tables"
            found = f"its {what} are in {error.recorded}, not in {error.given}"
            yield Symptom(subject="domain", found=found, next_step=error.next_step)

    def _moves(self) -> Iterator[Symptom]:
        """Report a move between two stores that has not ended, or that has taken the domain away."""
        key = topology_key(self.domain)
        move = self.reader.read(self.domain, [key]).of(key).record.move
        if move is not None and move.state in (MoveState.LEAVING, MoveState.ARRIVING):
            way = "to" if move.state is MoveState.LEAVING else "from"
            yield Symptom(
                subject="domain",
                found=f"a move {way} {move.place} has begun and not ended: no task can begin",
                next_step=f"{self._command('db move --from … --to …')} once more: it goes on where it was.",
            )
        if move is not None and move.state is MoveState.GONE:
            step = "let the connection name that store; nothing changes here any more."
            yield Symptom(subject="domain", found=f"it has moved to {move.place}", next_step=step)

    def _commits(self) -> Iterator[Symptom]:
        """Report a gap in the commit sequence (I2)."""
        expected = 0
        while page := self.reader.changes(self.domain, expected):
            for commit in page:
                expected += 1
                if commit.csn != expected:
                    yield Symptom(
                        subject=f"commit {expected}",
                        found=f"it is missing: the next one that the store has is {commit.csn}",
                        next_step="restore the store from a backup; then `airflow epochs db restored`.",
                    )
                    return

    # --- tables ----------------------------------------------------------------------------------------------

    def _tables(self) -> Iterator[Symptom]:
        declared = declared_tables(self.reader, self.domain)
        for stamped in list(pages(self.reader, self.domain, TableRecord)):
            table, ref = declared.get(TableName(stamped.key.item)), stamped.record.ref
            if table is None and ref is not None:
                table = as_recorded(stamped, ref)
            if table is not None:
                yield from self._table(table, stamped)

    def _table(self, table: Table, stamped: Stamped[TableRecord]) -> Iterator[Symptom]:
        subject = f"table {table.name}"
        try:
            found = compare_pointer(self.reader, self.formats, table)
        except RetryableError:
            raise
        except EpochError as error:
            yield Symptom(subject=subject, found=error.message, next_step=error.next_step)
            return
        if found.unprotected:
            yield Symptom(
                subject=f"settings of {table.name}",
                found=f"another program set {found.unprotected}: cleanups by other programs may delete files of cuts",
                next_step="nothing: the table's next publish sets it back. Let no such cleanup run until then.",
                urgent=False,
            )
        if found.status is PointerStatus.AHEAD:
            yield self._ahead(subject, found)
        elif found.stops and found.status is not PointerStatus.FOREIGN:
            refusal = stopped(table, stamped.record.ref, found.stops)
            yield Symptom(subject=subject, found=refusal.message, next_step=refusal.next_step)
        elif found.status is not PointerStatus.CURRENT:
            yield self._stray_pointer(table, stamped.record, found)
        else:
            yield from self._shown(table)

    def _shown(self, table: Table) -> Iterator[Symptom]:
        """Report a table whose catalog state differs from a cut of the table alone (R17)."""
        key = table_key(table.domain, table.name)
        before = self.reader.read(table.domain, [key]).of(key)
        if before.record.ref is None:
            return
        table_format = self.formats[before.record.ref.format]
        try:
            seen = set(table_format.shown_files(table))
            wanted = {uri for state in shown_states(before) for uri in table_format.files(state)}
        except Unavailable:
            return  # missing files are reported by themselves
        if seen == wanted or self.reader.read(table.domain, [key]).of(key).version != before.version:
            return
        upgrade = self.reader.format < TOLD_APART_SINCE
        first = (
            "when all hosts have this version of the package, `airflow epochs db upgrade`; then "
            if upgrade
            else ""
        )
        yield Symptom(
            subject=f"table {table.name}",
            found=f"engines that load it from the catalog, without a cut, see {len(seen)} files, and a cut of it "
            f"{len(wanted)}: its last commit was made by an earlier version of the package",
            next_step=f"{first}nothing: its next commit shows what a cut reads.",
            urgent=False,
        )

    def _ahead(self, subject: str, found: Compared) -> Symptom:
        return Symptom(
            subject=subject,
            found=f"it was published with CSN {found.csn} by the store as incarnation {found.incarnation}, which this "
            "store does not know: it was restored from a backup",
            next_step="`airflow epochs db restored`; then restore the table to the same moment.",
        )

    def _stray_pointer(self, table: Table, record: TableRecord, found: Compared) -> Symptom:
        subject = f"table {table.name}"
        if found.status is PointerStatus.BEHIND:
            step = f"{self._command('recover')}, or the next begin of its job."
            return Symptom(subject=subject, found="the catalog's pointer is behind", next_step=step)
        if found.status is PointerStatus.COMPACTED:
            return Symptom(
                subject=subject,
                found="another program has put the same rows into other files",
                next_step="nothing: the next publish goes on from there.",
                urgent=False,
            )
        obstacle = self._obstacle(table, record, found)
        step = f"{self._command('recover')} takes the rows over."
        if obstacle:
            step = f"{roll_back(found)}: {obstacle}."
        elif table.on_foreign_commit is not OnForeignCommit.ADOPT:
            step = f"{roll_back(found)}, or declare on_foreign_commit='adopt'."
        return Symptom(subject=subject, found=f"another program wrote to it: {found.foreign}", next_step=step)

    def _obstacle(self, table: Table, record: TableRecord, found: Compared) -> str:
        """Return the reason why another program's rows cannot be adopted, whatever is declared; empty if they can."""
        try:
            span = foreign_span(table, record, found)
            refuse_dependents(self.reader, self.domain, [table.name], span, self.defaults)
        except ForeignCommit as error:
            return error.foreign.obstacle or "nothing was published to it"
        except DependentReaders as error:
            return f"{error.readers[0]}, which would change"
        return ""

    # --- jobs ------------------------------------------------------------------------------------------------

    def _jobs(self) -> list[JobRecord]:
        return [stamped.record for stamped in pages(self.reader, self.domain, JobRecord)]

    def _attempts(self) -> Iterator[Symptom]:
        """Report attempts that have fallen silent."""
        now = self.reader.read(self.domain, []).now
        for job in self._jobs():
            for lock in list(pages(self.reader, self.domain, LockRecord, job.name)):
                if not (lock.record.ended or has_expired(lock.at, lock.record.ttl, now)):
                    continue
                key = lock.key._replace(kind=Kind.EPOCH)
                epoch = self.reader.read(self.domain, [key]).get(key)
                interval = epoch.record.interval if epoch is not None else lock.key.item
                yield Symptom(
                    subject=f"{job.name} {interval}",
                    found=f"the attempt of {lock.record.owner} is silent since {lock.at.isoformat()}",
                    next_step=f"run the task again; {self._explain(job.name, interval)} shows what it did.",
                )

    def _waits(self) -> Iterator[Symptom]:
        """Report the first open epoch of each job if it failed, or waits for inputs that do not come."""
        jobs, inactive = self._jobs(), inactive_jobs(self.reader, self.domain)
        owners = owners_of(jobs)
        for job in jobs:
            if job.retired or job.name in inactive:
                continue
            found = explain(self.reader, self.domain, job.name)
            subject = f"{job.name} {found.interval}"
            if found.state in (EpochState.ABORTED, EpochState.CHECK_FAILED):
                step = f"{self._explain(job.name, found.interval)}; {found.next_step}"
                yield Symptom(subject=subject, found=found.summary, next_step=step)
            elif found.state is EpochState.NOTHING:
                order = out_of_order(self.reader, self.domain, job, found)
                for reason in (*in_vain(job, found, owners, inactive), *order):
                    step = f"{self._explain(job.name, found.interval)}; {found.next_step}"
                    yield Symptom(subject=subject, found=reason, next_step=step)

    def _failed_before(self) -> Iterator[Symptom]:
        """Report failed epochs before the tables of their job begin: nothing waits for them."""
        for failed in failed_before(self.reader, self.domain):
            step = f"{self._explain(failed.job.name, failed.first.interval)}; {failed.next_step}"
            subject, urgent = f"job {failed.job.name}", failed.begins is None
            yield Symptom(subject=subject, found=failed.found, next_step=step, urgent=urgent)

    def _holes(self) -> Iterator[Symptom]:
        """Report holes of tables that no run fills by itself."""
        for hole in holes(self.reader, self.domain):
            whole = f"with on_rerun={OnRerun.NEW_REVISION.value!r} where the job reads other sources since"
            clear = f"clear the task of job {hole.job} for these epochs, {whole}; or " if hole.epochs else ""
            step = f"{clear or hole.run}{self._command(hole.cure)}."
            yield Symptom(subject=f"table {hole.table}", found=hole.found, next_step=step)

    def _explain(self, job: JobName, interval: Interval | str) -> str:
        if isinstance(interval, Interval):
            interval = f"{interval.start.isoformat()}/{interval.end.isoformat()}"
        return self._command(f"explain {quote(job)} {interval}")

    # --- leases, late data, orphans --------------------------------------------------------------------------

    def _leases(self) -> Iterator[Symptom]:
        now = self.reader.read(self.domain, []).now
        for lease in list(pages(self.reader, self.domain, LeaseRecord)):
            if has_expired(lease.at, lease.record.ttl, now):
                yield Symptom(
                    subject=f"lease {lease.key.item}",
                    found=f"{lease.record.owner} has not renewed it since {lease.at.isoformat()}; it keeps files",
                    next_step=f"{self._command('retention vacuum')} ends it.",
                    urgent=False,
                )

    def _unread(self) -> Iterator[Symptom]:
        """Report late or replaced data that no epoch reads, abandoned bounds, and sources that do not answer."""
        left = list(unread(self.reader, self.domain, self.source_readers))
        for late in left:
            if late.problem is not None:
                yield Symptom(
                    subject=f"source {late.source.name}",
                    found=str(late),
                    next_step=late.problem.next_step,
                    urgent=isinstance(late.problem, RetryableError),
                )
                continue
            step = late.next_step(self.domain)
            yield Symptom(
                subject=f"source {late.source.name}", found=str(late), next_step=step, urgent=late.is_urgent
            )

        told = {name for late in left for name in late.late}
        for found in abandoned(self.reader, self.domain, told):
            yield Symptom(
                subject=f"source {found.source.name}",
                found=str(found),
                next_step=found.next_step,
            )

    def _behind(self) -> Iterator[Symptom]:
        """Report epochs behind a source that was bound anew, whose readers wait, and rows behind others."""
        reading = self.reader.read(self.domain, [topology_key(self.domain)])
        for entry in behind_of(reading, self.domain):
            if not entry.until:
                subject, step = f"{entry.job} {entry.interval}", f"{entry.way_out}."
                yield Symptom(subject=subject, found=entry.why, next_step=step)
        for row in rows_that_stayed(reading, self.domain):
            subject, step = f"table {row.table}", f"{row.way_out}."
            yield Symptom(subject=subject, found=row.why, next_step=step, urgent=False)
        plan = self._command("restate plan")
        for label in outdated_tables(self.reader, self.domain):
            subject, step = (
                f"table {label.table}",
                f"{plan} computes these epochs again, if they are to follow.",
            )
            yield Symptom(subject=subject, found=str(label), next_step=step, urgent=False)

    def _orphans(self) -> Iterator[Symptom]:
        found: dict[TableName, int] = {}
        for orphan in orphans(self.reader, self.formats, self.domain, self.defaults):
            name = orphan.place.table.name
            found[name] = found.get(name, 0) + 1
        for table, places in found.items():
            yield Symptom(
                subject=f"table {table}",
                found=f"{places} places of attempts that ended without a commit still hold files",
                next_step=f"{self._command('retention vacuum')} deletes them.",
                urgent=False,
            )

    # --- invariants ------------------------------------------------------------------------------------------

    def _stale_reads(self) -> Iterator[Symptom]:
        """Report committed epochs whose inputs have changed since (I4)."""
        found: dict[JobName, list[str]] = {}
        for stale in stale_reads(self.reader, self.domain):
            found.setdefault(stale.job, []).append(str(stale))
        for job, lines in found.items():
            yield Symptom(
                subject=f"inputs of {job}",
                found=f"{len(lines)} inputs of committed epochs are not what was read: {self._listed(lines)}",
                next_step=f"{self._command(f'restate plan {quote(job)} --interval START/END')} shows what computes "
                "them again from what is there now, with their readers, and the next command; "
                f"{self._command(f'explain {quote(job)} START/END')} shows one of them.",
            )

    def _missing_files(self) -> Iterator[Symptom]:
        """Report missing files of versions that can be read, or are to be published (I6)."""
        found: dict[TableName, dict[str, str]] = {}
        for gone in missing_files(self.reader, self.formats, self.domain, defaults=self.defaults):
            for file in gone.files:
                epoch = f" of {file.epochs}" if file.epochs else ""
                user = "" if gone.used_by == "readers" else f", for {gone.used_by}"
                found.setdefault(gone.table, {}).setdefault(file.uri, f"{file.uri}{epoch}{user}")
        for table, lines in found.items():
            yield Symptom(
                subject=f"files of {table}",
                found=f"{len(lines)} files are missing or damaged: {self._listed(list(lines.values()))}",
                next_step="bring them back from a backup of the warehouse; without one, "
                f"{self._command('restate plan JOB --interval START/END')} shows what computes these epochs again, all "
                "epochs of one file together, and the next command.",
            )

    def _listed(self, lines: Sequence[str]) -> str:
        """Return the first of *lines*, and the number of the others."""
        most = self.defaults.listed_readers
        more = f"; and {len(lines) - most} more" if len(lines) > most else ""
        return "; ".join(lines[:most]) + more
