"""A domain stays in the warehouse and the catalog that it began in (R33).

Records, and Iceberg's files, name files by whole URIs. Of two catalogs each would show what the processes that name it
have published, and lose the metadata files that the others delete.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_provider.domain.errors import FinalError
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Stamped, topology_key
from airflow_provider.domain.topology_record import TopologyRecord
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import MetadataReader, pages
from airflow_provider.tables.factory import OWN_CATALOG, TableFormats
from airflow_provider.tables.locations import lies_in, names_files, same_warehouse

PLACES_SINCE_FORMAT = 2
"""Stores of an older format do not remember a domain's warehouse and catalog."""


@dataclass(kw_only=True, eq=False, repr=False)
class WrongWarehouse(FinalError):
    """The domain's files are in another warehouse: a wrong setting, or a folder moved or copied.

    :param domain: name of the domain. :param recorded: URI of the warehouse that has its files.
    :param given: URI of the warehouse that was given.
    """

    domain: str
    recorded: str
    given: str


@dataclass(kw_only=True, eq=False, repr=False)
class WrongCatalog(FinalError):
    """The domain's tables are in another catalog than the one that was given.

    :param domain: name of the domain. :param recorded: address of its catalog, without a user.
    :param given: address of the catalog that was given.
    """

    domain: str
    recorded: str
    given: str


def refuse_elsewhere(
    domain: DomainName, topology: Stamped[TopologyRecord] | None, formats: TableFormats
) -> None:
    """Refuse to write to a domain beside another warehouse or catalog than its own.

    :param topology: as it was read; what it lacks (an older store) is not compared.
    :raises WrongWarehouse: the domain's warehouse is another one. :raises WrongCatalog: its catalog is.
    """
    refuse_other_warehouse(domain, topology, formats.warehouse)
    recorded = "" if topology is None else topology.record.catalog
    if recorded and formats.catalog and recorded != formats.catalog:
        raise _wrong_catalog(domain, recorded, formats.catalog)


def refuse_elsewhere_of(reader: MetadataReader, domain: DomainName, formats: TableFormats) -> None:
    """Read the topology, then do as :func:`refuse_elsewhere`."""
    key = topology_key(domain)
    refuse_elsewhere(domain, reader.read(domain, [key]).get(key), formats)


def refuse_other_warehouse(
    domain: DomainName, topology: Stamped[TopologyRecord] | None, warehouse: str
) -> None:
    """Refuse to read a domain beside another warehouse than its own; readers need no catalog.

    :param topology: as it was read; without a warehouse (an older store) nothing is compared.
    :param warehouse: the one that was given; empty for tables without one.
    :raises WrongWarehouse: the domain's warehouse is another one.
    """
    recorded = "" if topology is None else topology.record.warehouse
    if recorded and warehouse and not same_warehouse(recorded, warehouse):
        raise _wrong_warehouse(domain, recorded, warehouse)


def remembers_places(record: TopologyRecord, formats: TableFormats) -> bool:
    """Return True if *record* names the warehouse and the catalog, as far as *formats* have them."""
    return bool(record.warehouse or not formats.warehouse) and bool(record.catalog or not formats.catalog)


def with_places(
    reader: MetadataReader,
    domain: DomainName,
    topology: Stamped[TopologyRecord] | None,
    formats: TableFormats,
) -> TopologyRecord:
    """Return the record of *domain* with the places that it lacks, from *formats*; a new one without *topology*.

    :raises WrongWarehouse: no warehouse is recorded, and all of the domain's files are elsewhere.
    """
    record = topology.record if topology else TopologyRecord(generation=0)
    warehouse = _found_warehouse(reader, domain, topology, formats.warehouse)
    return replace(record, warehouse=warehouse, catalog=record.catalog or formats.catalog)


def _found_warehouse(
    reader: MetadataReader, domain: DomainName, topology: Stamped[TopologyRecord] | None, warehouse: str
) -> str:
    """Return the warehouse for a domain to remember: the recorded one, or else *warehouse*.

    :raises WrongWarehouse: none is recorded, and all of the domain's files are elsewhere.
    """
    if topology is None or topology.record.warehouse or not warehouse:
        return topology.record.warehouse if topology else warehouse
    refs = (stamped.record.ref for stamped in pages(reader, domain, TableRecord))
    places = [ref.location for ref in refs if ref and names_files(ref.location)]
    if places and not any(lies_in(place, warehouse) for place in places):
        raise _wrong_warehouse(domain, places[0].partition("/metadata/")[0], warehouse)
    return warehouse


def _wrong_warehouse(domain: DomainName, recorded: str, given: str) -> WrongWarehouse:
    """Return the error that names both places and the next step."""
    return WrongWarehouse(
        f"domain {domain!r} keeps its files in {recorded}, and the warehouse that was given is {given}. The store "
        "names every file by its whole URI: from there it would still read and delete files of the former.",
        next_step=f"give {recorded} as the warehouse. A folder that was moved: move it back, or put a link to it at "
        "its old path, and open it by that path. A copy takes its original's place by `airflow epochs db move "
        "--warehouse`, with a store of its own.",
        domain=domain,
        recorded=recorded,
        given=given,
    )


def _wrong_catalog(domain: DomainName, recorded: str, given: str) -> WrongCatalog:
    return WrongCatalog(
        f"domain {domain!r} has its tables in {_catalog(recorded)}, and the connection names {_catalog(given)}. Each "
        "would show only what the processes that name it have published.",
        next_step="let the connection name the former. If both are one under two names, or the tables are to move to "
        "the latter, let the DAGs rest and run `airflow epochs recover --new-catalog`.",
        domain=domain,
        recorded=recorded,
        given=given,
    )


def _catalog(address: str) -> str:
    return "the store's own catalog" if address == OWN_CATALOG else f"the catalog {address}"
