"""Retention of single states: hidden from readers first, deleted when no claim names them (R24)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from random import Random

from airflow_provider.coordination.context import Context
from airflow_provider.coordination.reading.resolve import names_of
from airflow_provider.coordination.upkeep.compact import CompactedUnit, Told, compact, take_apart
from airflow_provider.coordination.upkeep.expire import expire
from airflow_provider.coordination.upkeep.keep import Thinned, surplus, thin
from airflow_provider.coordination.upkeep.vacuum import Vacuumed, vacuum
from airflow_provider.domain.clock import Clock
from airflow_provider.domain.compaction import CompactionUnit
from airflow_provider.domain.defaults import DEFAULTS, Defaults
from airflow_provider.domain.errors import choice
from airflow_provider.domain.identifiers import TableName, domain_name, validate_text
from airflow_provider.domain.interval import as_utc
from airflow_provider.domain.keep import Keep
from airflow_provider.domain.topology import Table
from airflow_provider.stores.base import MetadataStore
from airflow_provider.tables.factory import TableFormats


class Retention:
    """Expiry of states and deletion of unclaimed versions. No row of a table's newest state is ever touched.

    :param clock: for waiting only. :param random: for pauses between tries.
    """

    def __init__(
        self,
        store: MetadataStore,
        formats: TableFormats,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        defaults: Defaults = DEFAULTS,
    ) -> None:
        self.store = store
        self.formats = formats
        self.defaults = defaults
        self._clock = clock
        self._random = random

    @property
    def _context(self) -> Context:
        return Context.of(
            self.store, self.formats, clock=self._clock, random=self._random, defaults=self.defaults
        )

    def expire(self, domain: str, table: str | Table, barrier: datetime) -> None:
        """Expire the state of *table* at *barrier*; repeating it changes nothing.

        Existing claims keep their versions. Of a full table the rows of that barrier leave its next version, in a
        commit of their own; an incremental table keeps all rows: only the barrier is gone.

        :raises InvalidInput: no barrier that the table has reached, its newest one, one that a job has yet to read,
            unless it is inactive (R9), or one that a restatement, or its revert, needs (R28, R30).
        :raises DomainMoved: the domain is in another store now. :raises DomainMoving: it is on its way.
        """
        checked = domain_name(domain)
        (name,) = names_of([table])
        expire(self._context, checked, name, as_utc(barrier, "barrier"))

    def keep(
        self, domain: str, keep: Keep, tables: Iterable[str | Table] = (), *, most: int = 1_000
    ) -> Thinned:
        """Expire the states of full tables that *keep* does not name, oldest first; a repetition goes on.

        Incremental tables are left alone: their rows are in every later state, too.

        :param tables: of which; by default all full tables of the domain. :param most: number of states of this call.
        :return: also the states that are needed and stay: of a job that has yet to read them, of a
            restatement, or of one that can be reverted.
        :raises UnknownName: a table that no job has registered. Others are those of :meth:`expire`.
        """
        return thin(self._context, domain_name(domain), keep, _some(tables), most)

    def surplus(self, domain: str, keep: Keep, tables: Iterable[str | Table] = ()) -> Thinned:
        """Return the states that :meth:`keep` would expire; changes nothing."""
        return surplus(self.store, domain_name(domain), keep, _some(tables))

    def compact(
        self,
        domain: str,
        table: str | Table,
        *,
        before: datetime | None = None,
        unit: CompactionUnit | str = CompactionUnit.MONTH,
        by: str = "compaction",
        most: int = 1_000,
        told: Told = lambda _unit: None,
    ) -> tuple[CompactedUnit, ...]:
        """Bring the epochs of each whole unit of an incremental Iceberg table into common files; a repetition goes on.

        One for each value of ``partition_by``, and for each 512 MiB. No row changes, and no job waits. Each unit is a
        commit of its own, without an epoch. The former files leave with their versions (:meth:`vacuum`). An epoch that
        is computed again gets files of its own first.

        :param before: units that end later are left alone; by default, and at most, the table's watermark.
        :param unit: day, month or year, in UTC. :param by: author of the commits. :param most: number of units.
        :param told: called after each commit, to show progress.
        :return: the units that it has compacted, oldest first, then those that it has left, with the reasons.
        :raises UnknownName: a table that no job has registered.
        :raises InvalidInput: a full table, or a format whose files are of one epoch each.
        :raises ForeignCommit: another program has changed rows of the table.
        :raises StoreIncompatible: an older store, which has to be upgraded first.
        :raises Conflict: others kept replacing its files. :raises DomainMoving: the domain is being moved.
        """
        (name,) = names_of([table])
        return compact(
            self._context,
            domain_name(domain),
            name,
            before=None if before is None else as_utc(before, "before"),
            unit=choice(CompactionUnit, unit, "unit"),
            by=validate_text(by, "by"),
            most=most,
            told=told,
        )

    def take_apart(
        self,
        domain: str,
        table: str | Table,
        *,
        since: datetime | None = None,
        before: datetime | None = None,
        by: str = "compaction",
        most: int = 1_000,
        told: Told = lambda _unit: None,
    ) -> tuple[CompactedUnit, ...]:
        """Give each epoch of compacted units files of its own again; the opposite of :meth:`compact`.

        :param since: only units with an epoch that ends later. :param before: only units that begin until then.
            Others are those of :meth:`compact`.
        """
        (name,) = names_of([table])
        return take_apart(
            self._context,
            domain_name(domain),
            name,
            since=None if since is None else as_utc(since, "since"),
            before=None if before is None else as_utc(before, "before"),
            by=validate_text(by, "by"),
            most=most,
            told=told,
        )

    def vacuum(self, domain: str) -> Vacuumed:
        """End expired claims, and delete unclaimed versions that were superseded ``retention_grace`` ago.

        Output of attempts that ended ``orphan_grace`` ago without a commit is deleted, too (R16).

        May be called at any time, by several at once, and again after a crash.

        :raises StoreIncompatible: a claim cannot be read: nothing is deleted (R23).
        :raises WrongWarehouse: the domain's files are in another one (R33): nothing is deleted.
        :raises WrongCatalog: its tables are in another catalog: nothing is deleted.
        """
        return vacuum(self._context, domain_name(domain))


def _some(tables: Iterable[str | Table]) -> list[TableName]:
    """Return the names of *tables*; none where none are given."""
    given = [tables] if isinstance(tables, str | Table) else list(tables)
    return names_of(given) if given else []
