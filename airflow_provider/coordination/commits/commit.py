"""The one builder of commits: every transaction that takes a CSN is made here (docs/decisions/expected-csn.md).

Only a move of a domain makes commits of its own: it repeats those that were made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider.domain.columns import AppliedChange
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.identifiers import ChangeSetId, DomainName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.publishing import succeeding
from airflow_provider.domain.records import Kind, Stamped, schema_key
from airflow_provider.domain.topology import Table
from airflow_provider.domain.version import (
    CommitRecord,
    Member,
    SchemaRecord,
    Shown,
    TableDelta,
    TableRecord,
    TableRef,
)
from airflow_provider.stores.base import (
    Absent,
    CatalogSwap,
    Delete,
    Exists,
    Number,
    Put,
    Reading,
    SameStore,
    Transaction,
)
from airflow_provider.tables.base import Prepared, Publication


@dataclass(slots=True)
class CommitBuilder:
    """Collector of what one commit requires and writes, in any order; it asks no store.

    :param reading: what the commit is decided on: its head gives the CSN, its incarnation the store.
    :ivar deltas: entries of the commit record, one for each table that gets a new version.
    """

    domain: DomainName
    reading: Reading
    defaults: Defaults
    deltas: list[TableDelta] = field(default_factory=list, init=False)
    _requires: dict[Exists | Absent, None] = field(default_factory=dict, init=False)
    _updates: list[Put | Delete | CatalogSwap] = field(default_factory=list, init=False)
    _moves: bool = field(default=False, init=False)
    _dropped: list[TableName] = field(default_factory=list, init=False)

    @property
    def csn(self) -> int:
        """The number that the commit takes, or it fails: table metadata and records name it beforehand."""
        return self.reading.head.csn + 1

    def require(self, *requirements: Exists | Absent) -> None:
        """Require these; repeating one changes nothing."""
        self._requires.update(dict.fromkeys(requirements))

    def hold(self, *stamped: Stamped[Any]) -> None:
        """Require that records still are as they were read."""
        self.require(*(Exists(record.key, record.version) for record in stamped))

    def update(self, *updates: Put | Delete | CatalogSwap) -> None:
        """Write these; a transaction has one update of each key."""
        self._updates += updates

    def move(self, stamped: Stamped[TableRecord], after: TableRecord) -> None:
        """Make *after* the table's record, which still is as it was read; its former state goes into ``earlier``."""
        self._moves = True
        self.hold(stamped)
        self.update(Put(stamped.key, succeeding(stamped, after, self.defaults)))

    def remove(self, *stamped: Stamped[Any]) -> None:
        """Delete records, which still are as they were read: readers get them no more from this commit on.

        The commit names the tables among them.
        """
        self._moves = True
        self.hold(*stamped)
        self._dropped += [TableName(record.key.item) for record in stamped if record.key.kind is Kind.TABLE]
        self.update(*(Delete(record.key) for record in stamped))

    def next_version(
        self, table: Table, base: TableRef | None, shows: Shown, change_set: ChangeSetId
    ) -> Publication:
        """Return a version of *table* on top of *base* that carries the CSN, and changes no row yet."""
        return Publication(
            table=table,
            base=base,
            removes=(),
            adds=(),
            shows=shows,
            csn=self.csn,
            incarnation=self.reading.head.incarnation,
            change_set=change_set,
            revision=0,
            token=0,
        )

    def show(
        self,
        stamped: Stamped[TableRecord],
        after: TableRecord,
        interval: Interval,
        publication: Publication,
        prepared: Prepared,
    ) -> None:
        """Make a prepared version the table's newest, with the schema and the column changes that are new in it.

        :param after: the table's record, but for these. :param interval: the time whose rows change.
        """
        base, ref = publication.base, prepared.ref
        schema = None if base is None else base.schema_id
        changes = (*after.changes, *(AppliedChange(change, schema) for change in publication.changes))
        self.move(stamped, replace(after, ref=ref, changes=changes))
        if prepared.swap is not None:
            self.update(prepared.swap)
        if base is None or (base.table_uuid, base.schema_id) != (ref.table_uuid, ref.schema_id):
            key = schema_key(self.domain, publication.table.name, ref.table_uuid, ref.schema_id)
            self.update(Put(key, SchemaRecord(schema=prepared.schema)))
        delta = TableDelta(
            table=publication.table.name,
            interval=interval,
            revision=publication.revision,
            watermark=after.progress.watermark,
            ref=ref.lasting(),
            rows=sum(part.rows for _, part in publication.adds),
        )
        self.deltas.append(delta)

    def unnumbered(self) -> Transaction:
        """Return the transaction without a commit: readers see nothing by it."""
        return Transaction(
            domain=self.domain,
            store=SameStore(self.reading.head.incarnation),
            requires=tuple(self._requires),
            updates=tuple(self._updates),
        )

    def transaction(
        self, change_set: ChangeSetId, *, by: str, members: Sequence[Member] = (), any_csn: bool = False
    ) -> Transaction:
        """Return the transaction; it takes a CSN if it moves a table, or removes one.

        :param any_csn: nothing names the CSN beforehand: commits of others do not make it fail.
        """
        if not self._moves:
            return self.unnumbered()
        record = CommitRecord(
            change_set=change_set,
            members=tuple(members),
            by=by,
            tables=tuple(self.deltas),
            dropped=tuple(sorted(self._dropped)),
        )
        number = Number(record, expected=None if any_csn else self.csn)
        return replace(self.unnumbered(), number=number)
