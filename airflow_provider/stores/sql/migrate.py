"""Read, check and upgrade the schema version of a database."""

from __future__ import annotations

from sqlalchemy import Connection, inspect, text

from airflow_provider.stores.schema_status import Fit, SchemaStatus
from airflow_provider.stores.sql.schema import REVISIONS, VERSION_TABLE

SCRIPTS = "airflow_provider.stores.sql:migrations"


def status(connection: Connection, location: str) -> SchemaStatus:
    """Return the state of the schema. Read-only."""
    tables = inspect(connection).get_table_names()
    found = None
    if VERSION_TABLE in tables:
        found = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))  # noqa: S608 - a constant
    return SchemaStatus.of(location, found, REVISIONS, empty=not tables)


def upgrade(connection: Connection, location: str) -> SchemaStatus:
    """Bring the schema up to date within the transaction that *connection* is in.

    :raises PackageTooOld: the schema is newer than this version of the package.
    """
    before = status(connection, location)
    if before.fit is Fit.NEWER:
        before.require_current()
    if before.fit is not Fit.CURRENT:
        _run_migrations(connection)
    return status(connection, location)


def _run_migrations(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", SCRIPTS)
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
