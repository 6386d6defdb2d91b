"""The first schema: records, heads, the store's identity, the Iceberg catalog's tables, operators' views."""

from __future__ import annotations

import time
import uuid

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_READABLE_TIME = {
    "sqlite": "strftime('%Y-%m-%dT%H:%M:%S', ({0} - ({0} % 1000000 + 1000000) % 1000000) / 1000000, 'unixepoch')"
    " || printf('.%06dZ', ({0} % 1000000 + 1000000) % 1000000)",
    "postgresql": "to_timestamp({0} / 1000000.0)",
}
"""Expression that turns microseconds since 1970 into a readable time, by database."""


def upgrade() -> None:
    _create_records()
    _create_iceberg_catalog()
    _create_views()
    store = sa.table(
        "epochs_store", sa.column("incarnation"), sa.column("created_at"), sa.column("last_version")
    )
    op.execute(
        store.insert().values(incarnation=uuid.uuid4().hex, created_at=time.time_ns() // 1000, last_version=0)
    )


def _create_records() -> None:
    name = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    op.create_table(
        "epochs_record",
        *(sa.Column(part, name, primary_key=True) for part in ("domain", "kind", "partition", "item")),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("csn", sa.BigInteger),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text),
        sa.Column("interval_start", sa.BigInteger),
        sa.Column("interval_end", sa.BigInteger),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "epochs_head",
        sa.Column("domain", name, primary_key=True),
        sa.Column("csn", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "epochs_store",
        sa.Column("incarnation", sa.Text, primary_key=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("last_version", sa.BigInteger, nullable=False),
    )
    if op.get_bind().dialect.supports_sequences:
        op.execute(sa.schema.CreateSequence(sa.Sequence("epochs_version")))


def _create_iceberg_catalog() -> None:
    """Create the catalog's tables as pyiceberg does; an existing catalog stays as it is."""
    op.create_table(
        "iceberg_tables",
        sa.Column("catalog_name", sa.String(255), primary_key=True),
        sa.Column("table_namespace", sa.String(255), primary_key=True),
        sa.Column("table_name", sa.String(255), primary_key=True),
        sa.Column("metadata_location", sa.String(1000)),
        sa.Column("previous_metadata_location", sa.String(1000)),
        sa.Column("iceberg_type", sa.String(5)),
        if_not_exists=True,
    )
    op.create_table(
        "iceberg_namespace_properties",
        sa.Column("catalog_name", sa.String(255), primary_key=True),
        sa.Column("namespace", sa.String(255), primary_key=True),
        sa.Column("property_key", sa.String(255), primary_key=True),
        sa.Column("property_value", sa.String(1000), nullable=False),
        if_not_exists=True,
    )


def _create_views() -> None:
    """Create the views for operators: the records of three kinds, with readable times."""
    op.execute(_view("epochs_epochs", "epoch", "partition AS job, state"))
    op.execute(_view("epochs_slices", "slice", "partition AS table_name, item"))
    op.execute(_view("epochs_commits", "commit", "item AS sequence_number"))


def _view(name: str, kind: str, columns: str) -> str:
    readable = _READABLE_TIME[op.get_bind().dialect.name]
    times = ", ".join(
        f"{readable.format(column)} AS {column}"
        for column in ("interval_start", "interval_end", "updated_at")
    )
    return (
        f"CREATE VIEW {name} AS SELECT domain, {columns}, csn, {times}, body "  # noqa: S608 - constants only
        f"FROM epochs_record WHERE kind = '{kind}'"
    )
