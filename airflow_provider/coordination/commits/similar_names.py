"""Similar names for a table that no job has registered: its name may be mistyped."""

from __future__ import annotations

from difflib import get_close_matches

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.version import TableRecord
from airflow_provider.stores.base import MetadataReader, pages


def meant(reader: MetadataReader, domain: DomainName, table: str) -> str:
    """Return the end of a message that suggests the table of *domain* with the most similar name; empty without one."""
    known = [stamped.key.item for stamped in pages(reader, domain, TableRecord) if stamped.key.item != table]
    alike = get_close_matches(table, known, n=1)
    return f"; is {alike[0]!r} meant?" if alike else ""
