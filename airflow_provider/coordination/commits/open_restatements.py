"""Open restatements of a domain: what would take a member's rows, job or place away waits for their end (R28)."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider.domain.errors import EpochBusy
from airflow_provider.domain.identifiers import DomainName, RestatementId
from airflow_provider.domain.records import Stamped, restatement_key, topology_key
from airflow_provider.domain.restatement import RestatementRecord, is_over
from airflow_provider.stores.base import MetadataReader


def open_restatements(
    reader: MetadataReader, domain: DomainName, *, named: Callable[[RestatementId], bool] = lambda _name: True
) -> list[tuple[RestatementId, Stamped[RestatementRecord]]]:
    """Return the restatements within which epochs may be computed and published, in the order of their opening.

    :param named: selects some of them before their records are read.
    """
    reading = reader.read(domain, [key := topology_key(domain)])
    topology = reading.get(key)
    names = [] if topology is None else [name for name in topology.record.restating if named(name)]
    if not names:
        return []
    found = reader.read(domain, [restatement_key(domain, name) for name in names])
    records = ((name, found.of(restatement_key(domain, name))) for name in names)
    here, now = found.head.incarnation, found.now
    return [
        (name, stamped) for name, stamped in records if not is_over(stamped.record, incarnation=here, now=now)
    ]


def refuse_open_restatements(
    reader: MetadataReader,
    domain: DomainName,
    what: str,
    affects: Callable[[RestatementRecord], bool] = lambda _record: True,
) -> None:
    """Refuse *what* while restatements that it *affects* are open.

    :raises EpochBusy: with their names.
    """
    names = [name for name, stamped in open_restatements(reader, domain) if affects(stamped.record)]
    if names:
        raise EpochBusy(
            f"{what} has to wait for {', '.join(f'restatement {name!r}' for name in names)}, not published yet.",
            next_step="`airflow epochs restate publish` or `abandon` ends a restatement.",
            holders=tuple(f"restatement {name}" for name in names),
        )
