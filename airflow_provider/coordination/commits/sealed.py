"""Refusal to change a domain that is moved between stores: in the source, and in the target until it has arrived."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider.domain.errors import FinalError, RetryableError
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Stamped, topology_key
from airflow_provider.domain.topology_record import MoveState, TopologyRecord
from airflow_provider.stores.base import MetadataReader


@dataclass(kw_only=True, eq=False, repr=False)
class DomainMoved(FinalError):
    """The domain lives in another store now.

    :param domain: name of the domain. :param place: address of the other store, without secrets.
    """

    domain: str
    place: str


@dataclass(kw_only=True, eq=False, repr=False)
class DomainMoving(RetryableError):
    """The domain is on its way from one store to another.

    :param domain: name of the domain. :param place: address of the other store, without secrets.
    """

    domain: str
    place: str


def refuse_sealed(domain: DomainName, topology: Stamped[TopologyRecord] | None) -> None:
    """Refuse to change a domain that is being moved, or has moved away.

    :raises DomainMoved: the domain is in another store. :raises DomainMoving: the move has not ended.
    """
    move = None if topology is None else topology.record.move
    if move is None or move.state is MoveState.ARRIVED:
        return
    if move.state is MoveState.GONE:
        raise DomainMoved(
            f"domain {domain!r} has moved to {move.place}.",
            next_step="let the connection name that store.",
            domain=domain,
            place=move.place,
        )
    way = "to" if move.state is MoveState.LEAVING else "from"
    raise DomainMoving(
        f"domain {domain!r} is being moved {way} {move.place}.",
        next_step="try again when `airflow epochs db move` has ended; if it was interrupted, run it again.",
        domain=domain,
        place=move.place,
    )


def refuse_sealed_domain(reader: MetadataReader, domain: DomainName) -> None:
    """Read the topology, then do as :func:`refuse_sealed`."""
    key = topology_key(domain)
    refuse_sealed(domain, reader.read(domain, [key]).get(key))
