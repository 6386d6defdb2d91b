"""A domain stays in the warehouse that it began in: records, and Iceberg's files, name files by whole URIs (R33)."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.domain.errors import FinalError
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Stamped, topology_key
from airflow_provider.domain.topology_record import TopologyRecord
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import MetadataReader, pages
from airflow_provider.tables.locations import lies_in, names_files, same_warehouse

WAREHOUSE_SINCE_FORMAT = 2
"""Stores of an older format do not remember a domain's warehouse."""


@dataclass(kw_only=True, eq=False, repr=False)
class WrongWarehouse(FinalError):
    """The domain's files are in another warehouse: a wrong setting, or a folder moved or copied.

    :param domain: name of the domain. :param recorded: URI of the warehouse that has its files.
    :param given: URI of the warehouse that was given.
    """

    domain: str
    recorded: str
    given: str


def refuse_other_warehouse(
    domain: DomainName, topology: Stamped[TopologyRecord] | None, warehouse: str
) -> None:
    """Refuse to work on a domain beside another warehouse than its own.

    :param topology: as it was read; without a warehouse (an older store) nothing is compared.
    :param warehouse: the one that was given; empty for tables without one.
    :raises WrongWarehouse: the domain's warehouse is another one.
    """
    recorded = "" if topology is None else topology.record.warehouse
    if recorded and warehouse and not same_warehouse(recorded, warehouse):
        raise wrong_warehouse(domain, recorded, warehouse)


def refuse_other_warehouse_of(reader: MetadataReader, domain: DomainName, warehouse: str) -> None:
    """Read the topology, then do as :func:`refuse_other_warehouse`."""
    key = topology_key(domain)
    refuse_other_warehouse(domain, reader.read(domain, [key]).get(key), warehouse)


def found_warehouse(
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
        raise wrong_warehouse(domain, places[0].partition("/metadata/")[0], warehouse)
    return warehouse


def wrong_warehouse(domain: DomainName, recorded: str, given: str) -> WrongWarehouse:
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
