"""Cuts of a store as an engine's catalog: which tables there are, and the metadata file of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from hashlib import blake2b
from typing import Any

from airflow_provider.coordination.commits.inactive_jobs import inactive_jobs
from airflow_provider.coordination.reading.cut_files import cut_file
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.cut import Cut
from airflow_provider.domain.errors import InvalidInput, LeaseExpired, UnknownName
from airflow_provider.domain.identifiers import DomainName, LeaseId, TableName, lease_id
from airflow_provider.domain.lease import Lease
from airflow_provider.domain.read_options import Align, Consistency, Level
from airflow_provider.domain.version import TableRecord
from airflow_provider.rest_catalog.addresses import Address, Prefix, identity
from airflow_provider.stores.base import pages
from airflow_provider.tables.capabilities import TableCapability
from airflow_provider.tables.cut_files import TABLE_UUID, CutFile

MayRead = Callable[[EpochService, DomainName, Sequence[TableName]], Collection[TableName]]
"""Function that returns the tables, of those given, which the user may read."""

LONGEST = timedelta(days=1)
"""Maximum time for which an engine holds a cut: any user who may read a table may ask for it."""
MOST_HELD = 100
"""Maximum number of cuts of a domain that engines of one user hold."""


class Catalog:
    """Cuts of one store, for one user.

    :param user: name of the user, for the leases. :param may_read: the user's rights.
    """

    def __init__(self, service: EpochService, *, user: str, may_read: MayRead) -> None:
        self._service = service
        self._owner = f"catalog:{user}"
        self._may_read = may_read

    def domains(self) -> list[DomainName]:
        """Return the domains that have tables for the user, and whose name is an address."""
        named = self._service.cuts.reader.domains()
        return [domain for domain in named if "?" not in domain and self._regular(domain)]

    def hold(self, address: Address) -> Prefix:
        """Hold the cut at *address* by a lease, and return its prefix; or that of *address.lease*.

        Calls of one user that get the same cut share a lease: it lasts as long as any of them has asked for.

        :raises InvalidInput: the user holds too many cuts, or asks for too long a time.
        :raises UnknownName: there is no such domain or table for the user. :raises LeaseExpired: no such live lease.
        :raises NotReady: there is no cut.
        """
        if address.lease is not None:
            return Prefix.of(self._lease(address.domain, address.lease))
        default = min(self._service.context.defaults.lease_ttl, LONGEST)
        ttl = default if address.ttl is None else address.ttl
        if ttl > LONGEST:
            raise InvalidInput(
                field="ttl",
                value=address.ttl,
                expected=f"at most {LONGEST}",
                next_step="for longer, hold a cut by a lease (`airflow epochs cut --lease`) and address it: "
                f"{address.domain}?lease=NAME.",
            )
        cut = self._newest(replace(address, ttl=None))
        name = lease_id(_beginning(self._owner) + identity(cut))
        self._refuse_more(cut.domain, name)
        return Prefix.of(self._service.leases.acquire(cut, name=name, owner=self._owner, ttl=ttl))

    def cut(self, place: Address | Prefix, *, only: TableName | None = None) -> Cut:
        """Return the cut at *place*, with the tables that the user may read: of an address without a lease the newest.

        :param only: the one table that is asked for, whose rights are looked up alone.
        :raises LeaseExpired: the lease has ended; that of a prefix also where it holds another cut now.
        :raises UnknownName: there is no such domain or table for the user. :raises NotReady: there is no cut.
        """
        if isinstance(place, Prefix):
            return self._visible(self._held(place), only)
        if place.lease is not None:
            return self._visible(self._lease(place.domain, place.lease).cut, only)
        return self._newest(place)

    def table(self, place: Address | Prefix, name: TableName) -> CutFile:
        """Return the metadata file of a table in the cut at *place*; errors are also those of :meth:`cut`.

        :raises UnknownName: the cut does not have it. :raises LeaseExpired: the cut is no longer readable.
        :raises WarehouseUnavailable: this process may not write the file to the warehouse.
        """
        cut = self.cut(place, only=name)
        if name not in cut.states:
            raise UnknownName(
                f"table {name!r} is not in this cut of domain {cut.domain!r}.",
                next_step="an address without `tables` has those that a running job computes and that are committed; "
                "name others: tables=….",
                table=name,
                domain=cut.domain,
            )
        found = cut_file(self._service.cuts, cut, name)
        # Clients that load a table anew take another UUID for another table, and refuse it.
        own = {"table-uuid": found.metadata["properties"][TABLE_UUID]}
        return replace(found, metadata={**found.metadata, **own})

    def _newest(self, place: Address) -> Cut:
        if place.ttl is not None:
            raise InvalidInput(
                field="ttl",
                value=place.ttl,
                expected="an address without it, as the name of a namespace: nothing is held for it",
                next_step="give the address to the catalog's property warehouse.",
            )
        return self._service.cuts.cut(
            place.domain, self._tables(place), level=Level.READ_COMMITTED, **_options(place)
        )

    # --- tables --------------------------------------------------------------------------------------------------

    def _tables(self, address: Address) -> list[TableName]:
        """Return the tables of *address*.

        :raises UnknownName: the user may not read one of them; the same error as for a table that is not there.
        """
        named = list(address.tables)
        if named:
            self._refuse_hidden(address.domain, named)
            return named
        regular = self._regular(address.domain)
        if not regular:
            raise _nothing(address.domain)
        return regular

    def _regular(self, domain: DomainName) -> list[TableName]:
        """Return the tables of *domain* for the user that a running job computes, and whose states engines can open.

        The table of a retired or inactive job would hold every cut back at its own last barrier.
        """
        reader = self._service.cuts.reader
        found = {
            TableName(stamped.key.item): stamped.record
            for stamped in pages(reader, domain, TableRecord)
            if self._opens(stamped.record)
        }
        inactive = inactive_jobs(reader, domain) if found else {}
        names = sorted(name for name, record in found.items() if record.job not in inactive)
        readable = self._may_read(self._service, domain, names)
        return [name for name in names if name in readable]

    def _opens(self, record: TableRecord) -> bool:
        if record.ended or record.ref is None or record.progress.watermark is None:
            return False
        return TableCapability.CUT_FILES in self._service.cuts.formats[record.ref.format].capabilities

    def _refuse_hidden(self, domain: DomainName, names: Sequence[TableName]) -> None:
        readable = self._may_read(self._service, domain, names)
        for name in names:
            if name not in readable:
                raise UnknownName.of_table(name, domain)

    def _visible(self, cut: Cut, only: TableName | None) -> Cut:
        """Return *cut* with those of its tables that the user may read."""
        names = [name for name in cut.states if only is None or name == only]
        readable = set(self._may_read(self._service, cut.domain, names))
        return replace(
            cut,
            states={name: state for name, state in cut.states.items() if name in readable},
            outdated=tuple(label for label in cut.outdated if label.table in readable),
        )

    # --- leases --------------------------------------------------------------------------------------------------

    def _lease(self, domain: DomainName, name: LeaseId) -> Lease:
        """Return a live lease.

        :raises LeaseExpired: there is none, or none of its tables is for the user.
        """
        lease = self._service.leases.find(domain, name)
        if lease is None or not self._visible(lease.cut, None).states:
            raise LeaseExpired(
                f"there is no live lease {name!r} in domain {domain!r}.",
                next_step="see `airflow epochs lease list`.",
                lease=name,
            )
        return lease

    def _held(self, prefix: Prefix) -> Cut:
        """Return the cut of *prefix*.

        :raises LeaseExpired: its lease has ended, or holds another cut now.
        """
        lease = self._service.leases.find(prefix.domain, prefix.lease)
        if lease is None or identity(lease.cut) != prefix.cut:
            what = "has ended" if lease is None else "holds another cut now, or fewer tables"
            raise LeaseExpired(
                f"lease {prefix.lease!r}, by which this catalog reads domain {prefix.domain!r}, {what}.",
                next_step="connect again; ask for a longer time, if needed: `ttl=6h` in the address.",
                lease=prefix.lease,
            )
        return lease.cut

    def _refuse_more(self, domain: DomainName, name: LeaseId) -> None:
        held = self._service.leases.all(domain, beginning=_beginning(self._owner))
        if len(held) >= MOST_HELD and all(lease.id != name for lease in held):
            raise InvalidInput(
                field="warehouse",
                value=domain,
                expected=f"at most {MOST_HELD} cuts held at once by engines of {self._owner!r}",
                next_step=f"wait until {min(lease.until for lease in held).isoformat()}, when the next of them ends; "
                f"or `airflow epochs lease drop NAME --owner {self._owner}`.",
            )


def _nothing(domain: DomainName) -> UnknownName:
    """Return the error for a domain without a table for the user, which looks like one that is not there."""
    return UnknownName.of_empty(domain, what="committed table that you may read")


def _beginning(owner: str) -> str:
    """Return the text with which the names of *owner*'s leases begin, and no others."""
    return f"catalog-{blake2b(owner.encode(), digest_size=8).hexdigest()}-"


def _options(address: Address) -> dict[str, Any]:
    align = Align.EXACT if address.max_lag is None else Align.FLOOR
    # The whole domain, which a setting may ask for, has tables that the user may not read.
    return {
        "at": address.at,
        "align": align,
        "max_lag": address.max_lag,
        "consistency": Consistency.ROLLING,
    }
