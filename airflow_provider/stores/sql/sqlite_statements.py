"""Statements of a transaction for SQLite's driver; values are bound, never written in. Lists travel as JSON.

See docs/decisions/one-sql-layer.md.
"""

# ruff: noqa: S608 - put together from constants; values are bound
from __future__ import annotations

from airflow_provider.stores.base import CATALOG_NAME
from airflow_provider.stores.sql.schema import record_table

HEAD = "SELECT incarnation, (SELECT csn FROM epochs_head WHERE domain = :domain) FROM epochs_store"
"""Selects the store's incarnation and the head of one domain, null if it has none."""

DIFFERING = """
SELECT :kind, :partition, wanted.key, version, csn, updated_at, body
FROM json_each(:keys) AS wanted LEFT JOIN epochs_record AS record
    ON domain = :domain AND kind = :kind AND partition = :partition AND item = wanted.key
WHERE (CAST(version AS TEXT) || ' ' || CAST(updated_at AS TEXT)) IS NOT wanted.value
"""
"""Selects the records of one partition that differ from what the caller knows.

``keys`` is an object of item and stamp: version and time of the known record, separated by a blank. (A store that was
restored from a backup gives out versions again; the time of the write tells such a record from the known one.)
A row without a version says that the record is gone.
"""

_AMONG = """
domain = :domain AND (kind, partition, item) IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]')
    FROM json_each(:keys))
"""
"""Matches the addresses in ``keys`` by one look-up by the whole primary key each, however many records the domain has.

(SQLite does so for a tuple IN a select; for a tuple IN a list, or a join, it reads the whole domain.)
"""

VERSIONS = f"SELECT kind, partition, item, version FROM epochs_record WHERE {_AMONG}"
REMOVAL = f"DELETE FROM epochs_record WHERE {_AMONG}"

_COLUMNS = [column.name for column in record_table.columns]
_KEY = [column.name for column in record_table.primary_key]

PUT = f"""
INSERT INTO epochs_record ({", ".join(_COLUMNS)}) VALUES ({", ".join(f":{name}" for name in _COLUMNS)})
ON CONFLICT ({", ".join(_KEY)}) DO UPDATE SET
    {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name not in _KEY)}
"""

TAKE_NUMBER = """
INSERT INTO epochs_head (domain, csn) VALUES (:domain, 1)
ON CONFLICT (domain) DO UPDATE SET csn = csn + 1 RETURNING csn
"""

NEXT_VERSION = "UPDATE epochs_store SET last_version = last_version + 1 RETURNING last_version, incarnation"

_NAMESPACE = f"catalog_name = '{CATALOG_NAME}' AND table_namespace = :namespace"

POINTER = f"SELECT metadata_location FROM iceberg_tables WHERE {_NAMESPACE} AND table_name = :table"

POINTERS = f"""
SELECT table_name, metadata_location FROM iceberg_tables
WHERE {_NAMESPACE} AND table_name IN (SELECT value FROM json_each(:keys))
"""

SWAP_POINTER = f"""
UPDATE iceberg_tables SET metadata_location = :new, previous_metadata_location = :expected
WHERE {_NAMESPACE} AND table_name = :table
"""
"""Moves the pointer of an Iceberg table, as Iceberg's SQL catalog does."""
