"""The schema's version: which one a database has, whether it fits, and how it is brought up to date."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection, inspect, text

from airflow_provider.domain.errors import StoreIncompatible
from airflow_provider.stores.sql.schema import REVISIONS, VERSION_TABLE

SCRIPTS = "airflow_provider.stores.sql:migrations"


class Fit(StrEnum):
    """How a database's schema stands to the one that this version of the package needs."""

    CURRENT = "current"
    EMPTY = "empty"
    """The database has no tables at all."""
    ABSENT = "absent"
    """The database has tables, and none of the store's."""
    OLDER = "older"
    NEWER = "newer"


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaStatus:
    """What :func:`status` found. Revisions are Alembic's; ``found`` is None when the store has no schema yet."""

    location: str
    fit: Fit
    found: str | None
    expected: str = REVISIONS[-1]

    def require_current(self) -> None:
        """:raises StoreIncompatible: the schema is not the one that is needed; says what to run."""
        if self.fit is Fit.CURRENT:
            return
        raise StoreIncompatible(
            f"{self.location}: {_PROBLEMS[self.fit].format(self)}",
            next_step=_NEXT_STEPS[self.fit],
            store=self.location,
            found=self.found,
            expected=self.expected,
            fit=self.fit,
        )


_PROBLEMS = {
    Fit.EMPTY: "the database has no schema yet; this version of the package needs revision {0.expected}.",
    Fit.ABSENT: "the database has other tables and none of the store's; revision {0.expected} is needed.",
    Fit.OLDER: "the schema has the revision {0.found}; this version of the package needs {0.expected}.",
    Fit.NEWER: "the schema has the revision {0.found}, which this version of the package does not know; "
    "it knows up to {0.expected}.",
}
_NEXT_STEPS = {
    Fit.EMPTY: "run `airflow epochs db upgrade`.",
    Fit.ABSENT: "check that this is the database you mean; then run `airflow epochs db upgrade`.",
    Fit.OLDER: "stop what uses the store, make a backup, and run `airflow epochs db upgrade`.",
    Fit.NEWER: "upgrade the package on this host to the version that made the schema.",
}


def status(connection: Connection, location: str) -> SchemaStatus:
    """Look at the schema; changes nothing."""
    tables = inspect(connection).get_table_names()
    if VERSION_TABLE not in tables:
        return SchemaStatus(location=location, fit=Fit.ABSENT if tables else Fit.EMPTY, found=None)
    found = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))  # noqa: S608 - a constant
    return SchemaStatus(location=location, fit=_fit(found), found=found)


def _fit(found: str | None) -> Fit:
    if found == REVISIONS[-1]:
        return Fit.CURRENT
    return Fit.OLDER if found is None or found in REVISIONS else Fit.NEWER


def upgrade(connection: Connection, location: str) -> SchemaStatus:
    """Bring the schema up to date within the transaction that *connection* is in.

    :raises StoreIncompatible: the schema is newer than this version of the package.
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
