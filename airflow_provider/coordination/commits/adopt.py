"""Adoption of rows that another program committed to a table, if the table's job declares it (R17).

An adoption is a commit of its own, without members: the other program's rows become part of the epochs that their
epoch column names. Those epochs were computed already, so the adoption is a rewrite like any other: it is refused
while committed epochs have read them, and an attempt that is about to publish on them begins again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from airflow_provider.coordination.commits.commit import CommitBuilder
from airflow_provider.coordination.commits.dependents import rewrite_requirements
from airflow_provider.coordination.commits.places import refuse_elsewhere
from airflow_provider.coordination.commits.sealed import refuse_sealed
from airflow_provider.coordination.commits.table_commits import ADOPTED_BY, prepared_or_moved, written_out
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.retrying import ReadAgain
from airflow_provider.domain.errors import Conflict, DependentReaders, ForeignCommit
from airflow_provider.domain.identifiers import ChangeSetId, DomainName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import rewrite_log_key, table_key, topology_key
from airflow_provider.domain.restatement import RestatementRecord
from airflow_provider.domain.rewrites import with_rewrite
from airflow_provider.domain.topology import OnForeignCommit, Table
from airflow_provider.domain.version import TableRecord, shown
from airflow_provider.stores.base import Put
from airflow_provider.tables.base import Publication
from airflow_provider.tables.pointer_status import Compared, PointerStatus
from airflow_provider.tables.projection import foreign_commit


def adopt(
    context: Context,
    table: Table,
    *,
    met: ForeignCommit | None = None,
    within: RestatementRecord | None = None,
) -> bool:
    """Make another program's rows in *table* part of the epochs that they name, if its job declares it.

    :return: whether there were any.
    :param met: error of the publish that has met the rows. :param within: the restatement or group that it is of. A
        restatement takes readers in for what it replaces, and would do so in vain for an adoption: *met* is raised
        in place of DependentReaders.
    :raises ForeignCommit: the rows name an epoch that is not committed, do not descend from a published version, or
        lie in files that cuts do not read.
    :raises DependentReaders: committed epochs have read what they change.
    """
    if table.on_foreign_commit is not OnForeignCommit.ADOPT:
        return False
    lost = Conflict.of_others(f"table {table.name!r}", "committing to it")
    try:
        return context.retry(_Adoption(context, table).run, lost)
    except DependentReaders as readers:
        if met is None or within is None or within.is_group:
            raise
        raise met from readers


def replaced_version(
    context: Context,
    table: Table,
    record: TableRecord,
    replaced: Iterable[Interval],
    within: RestatementRecord | None,
) -> int | None:
    """Return another program's version of *table* that changes no epochs but those *replaced*; None without one.

    A restatement is published on top of it: an adoption before would change what its members have read (R18).

    :param within: the restatement; a revert replaces no rows of another program (R30), and other commits adopt them.
    """
    if within is None or within.reverts is not None or table.on_foreign_commit is not OnForeignCommit.ADOPT:
        return None
    found = context.formats[table.format].compare(table, record.ref)
    if found.status is not PointerStatus.FOREIGN or found.foreign.obstacle:
        return None
    return found.version if {span.end for span in replaced}.issuperset(found.foreign.epochs) else None


def foreign_span(table: Table, record: TableRecord, found: Compared) -> Interval:
    """Return the time whose rows another program changed in *table*.

    :raises ForeignCommit: the rows belong to no committed epoch of the table.
    """
    foreign = found.foreign
    if record.ref is None or foreign.obstacle:
        raise foreign_commit(table, record.ref, found)
    epochs = []
    for barrier in foreign.epochs:
        epoch = record.cadence.ending_at(barrier) if record.cadence.is_barrier(barrier) else None
        if epoch is None or not record.progress.covers(epoch):
            obstacle = f"no committed epoch of the table ends at {barrier.isoformat()}"
            refused = replace(found, foreign=replace(foreign, obstacle=obstacle))
            raise foreign_commit(table, record.ref, refused)
        epochs.append(epoch)
    return Interval(min(epoch.start for epoch in epochs), max(epoch.end for epoch in epochs))


@dataclass(frozen=True, slots=True)
class _Adoption:
    context: Context
    table: Table

    @property
    def _domain(self) -> DomainName:
        return self.table.domain

    def run(self) -> bool:
        """:raises RequirementFailed: a record that it read has changed meanwhile. :raises ReadAgain: the table has."""
        name, domain = self.table.name, self._domain
        own, of_log, of_domain = table_key(domain, name), rewrite_log_key(domain, name), topology_key(domain)
        reading = self.context.store.read(domain, [own, of_log, of_domain])
        refuse_sealed(domain, reading.get(of_domain))
        refuse_elsewhere(domain, reading.get(of_domain), self.context.formats)
        stamped = reading.of(own)
        found = self.context.formats[self.table.format].compare(self.table, stamped.record.ref)
        if found.status is not PointerStatus.FOREIGN:
            return False
        span = foreign_span(self.table, stamped.record, found)
        store, formats, defaults = self.context.store, self.context.formats, self.context.defaults
        commit = CommitBuilder(domain, reading, defaults)
        topology = reading.of(of_domain)
        commit.require(*rewrite_requirements(store, domain, [name], span, topology, defaults=defaults))
        publication = self._publication(commit, stamped.record, found)
        try:
            prepared = prepared_or_moved(store, formats, publication, stamped)
        except ForeignCommit as error:
            if formats[self.table.format].compare(self.table, stamped.record.ref).version == found.version:
                raise
            raise ReadAgain from error  # the other program has written again since
        commit.show(stamped, written_out(stamped), span, publication, prepared)
        log = reading.of(of_log)
        commit.hold(log)
        commit.update(Put(log.key, with_rewrite(log, span, defaults)))
        store.transact(commit.transaction(publication.change_set, by=ADOPTED_BY))
        formats[self.table.format].published(publication, prepared)
        return True

    def _publication(self, commit: CommitBuilder, record: TableRecord, found: Compared) -> Publication:
        """Return a version of the table's own on top of the other program's, without a change."""
        shows = shown(record, record.progress, self.context.store.format)
        change_set = ChangeSetId(f"{self.table.name}@{found.version}#adopted")
        version = commit.next_version(self.table, record.ref, shows, change_set)
        return replace(version, adopts=found.version)
