"""Similar names for a table or a job that is not registered: its name may be mistyped."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import MetadataReader, pages


def meant(reader: MetadataReader, domain: DomainName, table: str) -> str:
    """Return the end of a message that suggests the table of *domain* with the most similar name; empty without one."""
    known = [stamped.key.item for stamped in pages(reader, domain, TableRecord) if stamped.key.item != table]
    return meant_of(table, known)


def meant_of(name: str, known: Iterable[str]) -> str:
    """Return the same for any *known* names."""
    alike = get_close_matches(name, list(known), n=1)
    return f"; is {alike[0]!r} meant?" if alike else ""
