"""An open store: cuts, leases and restatements of one domain or several."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from uuid6 import uuid7

from airflow_provider.client.cuts import ReadableCut
from airflow_provider.client.leases import HeldLease
from airflow_provider.client.restatements import Restatement, default_name, record_of, user
from airflow_provider.coordination.reading.resolve import names_of
from airflow_provider.coordination.restating.plan import Plan
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.bind import Bound
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import DomainName, TableName, domain_name, restatement_id, table_name
from airflow_provider.domain.lease import Lease
from airflow_provider.domain.read_options import Align, Consistency, Level
from airflow_provider.domain.schedule import ExplicitInterval
from airflow_provider.domain.session import Session
from airflow_provider.domain.topology import Job, Table

Tables = str | Table | Iterable[str | Table]
Restated = str | Table | Job | Iterable[str | Table | Job]


class Epochs:
    """An open store and its tables; close it, or use it in a ``with`` block. Made by :func:`connect`.

    :param domain: domain of tables and jobs that are given as names.
    """

    def __init__(self, service: EpochService, domain: str = "default") -> None:
        self._service = service
        self.domain = domain_name(domain)

    def cut(
        self,
        tables: Tables,
        *,
        domain: str | None = None,
        at: datetime | None = None,
        level: Level | str | None = None,
        align: Align | str = Align.EXACT,
        max_lag: timedelta | None = None,
        max_staleness: timedelta | None = None,
        consistency: Consistency | str | None = None,
        session: Session | None = None,
    ) -> ReadableCut:
        """Return one state of each table, all at one barrier and one CSN. Never waits.

        :param tables: names or declarations, all of one domain.
        :param domain: their domain; by default that of the declarations, or the domain given to :func:`connect`.
        :param at: latest barrier to read; None for the newest that all tables have reached.
        :param level: READ_COMMITTED resolves anew at each call; READ_UNCOMMITTED returns the newest WRITTEN
            output of each table, unaligned. The default is the configured ``read_level``.
        :param align: ``floor`` reads slower full tables at their own last barrier, at most *max_lag* before the cut's;
            ``cut.behind`` names them.
        :param max_staleness: maximum age of each table, by the store's clock.
        :param consistency: ``altogether`` uses only barriers that all tables of the domain have published.
        :param session: session of earlier cuts, behind which no table goes back; ``session.after(cut)`` is the next
            session.
        :raises InvalidInput: tables of several domains, or a request that READ_UNCOMMITTED cannot fulfil.
        :raises NotReady: no common barrier yet, or only one that is too old or behind the session; ``missing`` lists
            the tables that lag.
        :raises Unavailable: the states at that barrier were expired; ``kept`` has the nearest barriers that are not.
        :raises UnknownName: a table that no job has registered.
        :raises WrongWarehouse: the domain's files are in another warehouse than the one given.
        """
        owner, names = self._named(tables, domain)
        found = self._service.cuts.cut(
            owner,
            names,
            at=at,
            level=level,
            align=align,
            max_lag=max_lag,
            max_staleness=max_staleness,
            consistency=consistency,
            session=session,
        )
        return ReadableCut(self._service, found)

    def lease(
        self,
        tables: Tables | ReadableCut,
        *,
        name: str,
        owner: str | None = None,
        ttl: timedelta | None = None,
        domain: str | None = None,
        at: datetime | None = None,
        **options: Any,
    ) -> HeldLease:
        """Make a cut and hold it by a lease: its rows stay the same, and readable, until the lease ends.

        .. code-block:: python

            with epochs.lease(["flights", "weather"], name="report", owner=run_id) as lease:
                lease.cut["flights"].to_arrow()

        :param tables: as for :meth:`cut`; or an existing cut, which the lease then holds.
        :param name: name of the lease, unique in the domain.
        :param owner: owner of the lease; a retry with the same name and owner gets the same cut. By default a new owner
            for each call, so that no retry finds the lease.
        :param ttl: time to live of the lease unless it is renewed; the default is ``lease_ttl``.
        :param options: as for :meth:`cut`.
        :raises LeaseHeld: another owner has *name*; the error says until when.
        :raises InvalidInput: the same owner holds by *name* other tables, a later barrier, or less than a session saw.
        :raises Unavailable: the states of the given cut were expired meanwhile.
        """
        asks = f"{getpass.getuser()}@{socket.gethostname()}/{uuid7()}" if owner is None else owner
        leases = self._service.leases
        if isinstance(tables, ReadableCut):
            if domain is not None or at is not None or options:
                raise InvalidInput(
                    field="tables",
                    value=tables,
                    expected="names of tables, where domain, at or another option of a cut is given",
                )
            held = leases.acquire(tables.record, name=name, owner=asks, ttl=ttl)
        else:
            where, names = self._named(tables, domain)
            held = leases.cut(where, names, name=name, owner=asks, ttl=ttl, at=at, **options)
        return HeldLease(self._service, held, for_retries=owner is not None)

    def held(self, found: Mapping[str, Any]) -> HeldLease:
        """Return the lease that a task before this one has made, such as ``EpochSensor(lease=…)``.

        .. code-block:: python

            with epochs.held(found) as lease:
                lease.cut["flights"].to_arrow()

        The end of the block does not drop it, since other tasks may read it too: ``lease.drop()`` does.

        :param found: what the sensor returned: ``domain``, ``lease`` and ``owner``.
        :raises InvalidInput: *found* names no lease. :raises LeaseExpired: it has ended; its rows may be gone.
        """
        return HeldLease(self._service, self._service.leases.found(found), for_retries=True, of_others=True)

    def leases(self, *, domain: str | None = None) -> list[Lease]:
        """Return the live leases of the domain, by name: values with ``id``, ``owner``, ``until`` and ``cut``."""
        return self._service.leases.all(self.domain if domain is None else domain)

    def bind(
        self, source: str, interval: ExplicitInterval, *, reason: str, by: str, domain: str | None = None
    ) -> Bound:
        """Record the present content of *source*'s source, such as a late file, as the bounds of the epoch *interval*.

        :param interval: as for :func:`epoch_run`, such as ``"2024-05-01"``.
        :param by: the user who decides it; stored with *reason*.
        :return: the new bounds, and in ``behind`` the committed epochs to compute again.
        :raises InvalidInput: the interval cannot be parsed, or no bounds are recorded for it.
        :raises UnknownName: no job of the domain declares *source*.
        """
        return self._service.bind(
            self.domain if domain is None else domain, source, interval, reason=reason, by=by
        )

    def plan_restatement(
        self, tables_or_jobs: Restated, interval: ExplicitInterval, *, domain: str | None = None
    ) -> Plan:
        """Return what :meth:`restate` would compute again; changes nothing.

        ``members`` has the epochs by job, ``expected`` the time that they took last, one after the other, and
        ``obstacles`` what keeps them from being computed again. Parameters and errors are those of :meth:`restate`,
        but obstacles are no error.
        """
        where, names = self._restated(tables_or_jobs, domain)
        return self._service.restatements.plan(where, names, interval)

    def restate(
        self,
        tables_or_jobs: Restated,
        interval: ExplicitInterval,
        *,
        reason: str,
        by: str | None = None,
        name: str | None = None,
        needs_approval: bool = False,
        lifetime: timedelta | None = None,
        domain: str | None = None,
    ) -> Restatement:
        """Open a restatement: committed epochs are computed again with all that has read them, and published whole.

        Until then readers see none of it, and normal runs leave these epochs alone. Compute them with
        ``epoch_runs(job, interval, restatement=name)``.

        :param tables_or_jobs: names or declarations of jobs, or of tables for the jobs that write them; all of one
            domain.
        :param interval: as for :func:`epoch_run`; its committed epochs are restated.
        :param reason: why; stored with *by*, by default the user who runs this program.
        :param name: unique in the domain; while the restatement is open, the same call returns it. The default is made
            of the first job or table and the start of the first epoch, and differs at each call.
        :param needs_approval: publish only what was approved.
        :param lifetime: time until the restatement is over; 7 days by default.
        :raises UnknownName: no job and no table of that name.
        :raises InvalidInput: no committed epoch in *interval*, or another restatement has the name.
        :raises TopologyError: the epochs cannot be computed again; the message lists the obstacles.
        """
        where, names = self._restated(tables_or_jobs, domain)
        restatements = self._service.restatements
        if name is None:
            planned = restatements.plan(where, names, interval)
            start = min(epochs.intervals[0].start for epochs in planned.asked)
            name = default_name(names[0], start)
        options = {} if lifetime is None else {"lifetime": lifetime}
        restatements.open(
            where,
            names,
            interval,
            name=name,
            reason=reason,
            by=user(by),
            needs_approval=needs_approval,
            **options,
        )
        return Restatement(self._service, where, restatement_id(name))

    def restatement(self, name: str, *, domain: str | None = None) -> Restatement:
        """Return the restatement *name*.

        :raises UnknownName: no such restatement in the domain.
        """
        where = self.domain if domain is None else domain_name(domain)
        record_of(self._service, where, name)
        return Restatement(self._service, where, restatement_id(name))

    def restatements(self, *, domain: str | None = None) -> list[Restatement]:
        """Return all restatements of the domain, by name: open, published and abandoned ones."""
        where = self.domain if domain is None else domain_name(domain)
        return [Restatement(self._service, where, name) for name, _ in self._service.restatements.all(where)]

    def close(self) -> None:
        """Close the connections; may be called twice. Afterwards its cuts and leases cannot be read."""
        self._service.close()

    def _named(self, tables: Tables, domain: str | None) -> tuple[DomainName, list[TableName]]:
        """Return the one domain of *tables*, and their names.

        :raises InvalidInput: no table, or tables of several domains.
        """
        if isinstance(tables, str | Table):
            tables = [tables]
        given = list(tables) if isinstance(tables, Iterable) else tables
        names = names_of(given)
        default = self.domain if domain is None else domain_name(domain)
        domains = {table.domain if isinstance(table, Table) else default for table in given}
        if domain is not None:
            domains.add(default)
        if len(domains) != 1:
            raise InvalidInput(
                field="tables",
                value=sorted(domains),
                expected="tables of one domain: CSNs of two domains say nothing about each other",
                next_step="make a cut for each domain; for names say domain=….",
            )
        return domains.pop(), names

    def _restated(self, given: Restated, domain: str | None) -> tuple[DomainName, list[str]]:
        """Return the one domain of the jobs and tables that are *given*, and their names.

        :raises InvalidInput: none, a value that is no name, or jobs and tables of several domains.
        """
        items = [given] if isinstance(given, str | Table | Job) else given
        if not isinstance(items, Iterable):
            raise InvalidInput(field="tables_or_jobs", value=given, expected="names or declarations")
        default = self.domain if domain is None else domain_name(domain)
        domains, names = set() if domain is None else {default}, list[str]()
        for item in items:
            where, name = (
                (item.domain, item.name) if isinstance(item, Table | Job) else (default, table_name(item))
            )
            domains.add(where)
            names.append(name)
        if len(domains) != 1:
            raise InvalidInput(
                field="tables_or_jobs",
                value=sorted(domains),
                expected="jobs or tables of one domain",
                next_step="open a restatement for each domain; for names say domain=….",
            )
        return domains.pop(), names

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
