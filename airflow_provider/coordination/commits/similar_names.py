"""Names of tables that are like one that no job has registered: it may be mistyped."""

from __future__ import annotations

from difflib import get_close_matches

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Kind
from airflow_provider.stores.base import MetadataReader, pages


def meant(reader: MetadataReader, domain: DomainName, table: str) -> str:
    """Ask for the table of *domain* that is called like *table*, at the end of a message; empty where there is none."""
    known = [
        stamped.key.item for stamped in pages(reader, domain, Kind.TABLE, "") if stamped.key.item != table
    ]
    alike = get_close_matches(table, known, n=1)
    return f"; is {alike[0]!r} meant?" if alike else ""
