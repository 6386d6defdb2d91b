"""Open restatements of a domain: what would take a member's rows, job or place away waits for their end (R28)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from airflow_provider.domain.errors import EpochBusy
from airflow_provider.domain.identifiers import DomainName, RestatementId
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.restatement import RestatementRecord, RestatementState
from airflow_provider.stores.base import MetadataReader, pages


def open_restatements(
    reader: MetadataReader, domain: DomainName
) -> Iterator[tuple[RestatementId, Stamped[RestatementRecord]]]:
    """Yield the restatements that are neither published nor abandoned, by name."""
    for stamped in pages(reader, domain, RestatementRecord):
        if stamped.record.state is RestatementState.OPEN:
            yield RestatementId(stamped.key.item), stamped


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
