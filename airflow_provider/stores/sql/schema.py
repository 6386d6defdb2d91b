"""The tables of the SQL store. Alembic's migrations make them; a test compares the two."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, MetaData, String, Table, Text
from sqlalchemy.dialects import postgresql

VERSION_TABLE = "epochs_alembic_version"

REVISIONS = ("0001", "0002")
"""Every revision of the schema, oldest first: each came with the next record format, from 1 on."""

metadata = MetaData()


def _name() -> Any:
    """Text that compares by code point in every database: keys sort alike everywhere."""
    return Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


record_table = Table(
    "epochs_record",
    metadata,
    Column("domain", _name(), primary_key=True),
    Column("kind", _name(), primary_key=True),
    Column("partition", _name(), primary_key=True),
    Column("item", _name(), primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("csn", BigInteger),
    Column("updated_at", BigInteger, nullable=False),
    Column("state", Text),
    Column("interval_start", BigInteger),
    Column("interval_end", BigInteger),
    Column("body", Text, nullable=False),
)
"""One row per record, see docs/decisions/one-record-table.md. Times are microseconds since 1970 in UTC; ``body`` is
encoded by ``stores.codec``."""

head_table = Table(
    "epochs_head",
    metadata,
    Column("domain", _name(), primary_key=True),
    Column("csn", BigInteger, nullable=False),
)
"""The last commit sequence number of each domain that has one."""

store_table = Table(
    "epochs_store",
    metadata,
    Column("incarnation", Text, primary_key=True),
    Column("created_at", BigInteger, nullable=False),
    Column("last_version", BigInteger, nullable=False),
    Column("lineage", Text),
)
"""One row: the store's identity, the counter of record versions (of databases without sequences), and the history
of the server that had this identity (of PostgreSQL)."""

iceberg_tables = Table(
    "iceberg_tables",
    metadata,
    Column("catalog_name", String(255), primary_key=True),
    Column("table_namespace", String(255), primary_key=True),
    Column("table_name", String(255), primary_key=True),
    Column("metadata_location", String(1000)),
    Column("previous_metadata_location", String(1000)),
    Column("iceberg_type", String(5)),
)
"""The Iceberg SQL catalog's pointers, exactly as pyiceberg 0.12 and Iceberg's own JDBC catalog define them."""

iceberg_namespace_properties = Table(
    "iceberg_namespace_properties",
    metadata,
    Column("catalog_name", String(255), primary_key=True),
    Column("namespace", String(255), primary_key=True),
    Column("property_key", String(255), primary_key=True),
    Column("property_value", String(1000), nullable=False),
)
"""The other table of the Iceberg SQL catalog."""
