"""Open stores in SQL databases: SQLite and PostgreSQL."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.stores.opening import Now, StoreOpener, UnopenedStore, with_extra
from airflow_provider.stores.sql.connecting import PostgresqlConnection, SqliteConnection

if TYPE_CHECKING:
    from airflow_provider.stores.sql.dialect import SqlDialect

_SQLITE_BUSY_S = "30"


class SqlOpener(StoreOpener):
    """Opener of stores in a SQL database, which can hold Iceberg's SQL catalog, too."""

    holds_catalog = True

    def dialect(self, url: str, now: Now | None = None) -> SqlDialect:
        """Return the dialect of the database at *url*; connects to nothing.

        :raises InvalidInput: not the address of a database, or its driver is not installed.
        """
        raise NotImplementedError

    def unopened(self, url: str, now: Now | None) -> UnopenedStore:
        from airflow_provider.stores.sql.store import SqlStore

        return SqlStore(self.dialect(url, now))

    def catalog_properties(self, url: str) -> dict[str, str]:
        self.dialect(url)
        return {"type": "sql", "uri": url, "init_catalog_tables": "false"}

    def catalog_engine(self, url: str) -> Any:
        return self.dialect(url).engine()

    def catalog_operation(self) -> AbstractContextManager[None]:
        from airflow_provider.stores.sql.forks import operation

        return operation()


class SqliteOpener(SqlOpener):
    """Opener of stores in a SQLite file."""

    scheme = "sqlite"
    form = "sqlite:////absolute/path/of/the/file.db"
    name = "SQLite"
    local = True
    file = "epochs.db"
    connection = SqliteConnection()

    def dialect(self, url: str, now: Now | None = None) -> SqlDialect:
        from airflow_provider.stores.sql.sqlite import SqliteDialect, system_time

        return SqliteDialect(self._path(url), now=now or system_time)

    def catalog_properties(self, url: str) -> dict[str, str]:
        return {**super().catalog_properties(url), "uri": f"{url}?timeout={_SQLITE_BUSY_S}"}

    def catalog_engine(self, url: str) -> Any:
        """Return an engine of its own: the store's engine begins its transactions in other ways."""
        from sqlalchemy import create_engine

        from airflow_provider.stores.sql.forks import close_before_forks

        engine = create_engine(self.catalog_properties(url)["uri"])
        close_before_forks(engine)
        return engine

    def _path(self, url: str) -> Path:
        """Return the path of the database file.

        :raises InvalidInput: not the absolute path of a file.
        """
        rest = url.partition("://")[2]
        path = rest[1:]
        if not rest.startswith("//") or "?" in path or "\0" in path or path.endswith("/"):
            raise InvalidInput(
                field="store url",
                value=self.shown(url),
                expected=f"{self.form}, without options",
                next_step="give the absolute path of a file on a local disk: every process of the host opens it, "
                "so neither ':memory:' nor a relative path can work.",
            )
        return Path(path)


class PostgresqlOpener(SqlOpener):
    """Opener of stores in a PostgreSQL database."""

    scheme = "postgresql+psycopg"
    form = "postgresql+psycopg://USER:PASSWORD@HOST:PORT[,HOST:PORT...]/DATABASE"
    name = "PostgreSQL"
    connection = PostgresqlConnection()

    def dialect(self, url: str, now: Now | None = None) -> SqlDialect:  # noqa: ARG002 - it has a clock
        try:
            from airflow_provider.stores.sql.postgresql.address import parsed
            from airflow_provider.stores.sql.postgresql.dialect import PostgresqlDialect
        except ImportError as error:
            raise InvalidInput(
                field="store url",
                value=self.shown(url),
                expected=f"an installed driver ({error})",
                next_step=with_extra("postgres"),
            ) from error
        return PostgresqlDialect(parsed(url))

    def catalog_properties(self, url: str) -> dict[str, str]:
        # SQLAlchemy only needs a URL that it can parse; the connections come from the store's own engine.
        return {**super().catalog_properties(url), "uri": "postgresql+psycopg://"}
