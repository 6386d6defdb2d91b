"""AWS Glue Data Catalog as a catalog whose pointers follow the store.

A pointer is moved by an update that names the entry's version, which Glue compares. Region, endpoint and credentials
are found as AWS's own tools find them. See docs/decisions/catalogs.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from pyiceberg.table.metadata import TableMetadata

from airflow_provider.domain.errors import InvalidInput, StoreUnavailable
from airflow_provider.domain.topology import Table
from airflow_provider.stores.opening import redacted
from airflow_provider.tables.iceberg.catalogs.base import (
    BEFORE,
    POINTER,
    PointerCatalog,
    new_parameters,
    pointer_in,
    refuse_name,
)
from airflow_provider.tables.iceberg.catalogs.columns import Column, columns_of

FORM = "glue://[ACCOUNT@]REGION"
_URL = re.compile(r"glue://(?:(?P<account>\d{12})@)?(?P<region>[a-z0-9-]+)")
_NAME = "the Glue catalog"


class GluePointerCatalog(PointerCatalog):
    """Tables in the Glue Data Catalog at *url*: databases are domains.

    :param url: as :data:`FORM`; without an account, that of the credentials.
    :param warehouse: URI below which tables lie.
    :raises InvalidInput: *url* has another form.
    """

    def __init__(self, url: str, warehouse: str) -> None:
        found = _URL.fullmatch(url)
        if found is None:
            raise InvalidInput(
                field="catalog",
                value=redacted(url),
                expected=FORM,
                next_step="correct the catalog's address, such as glue://eu-central-1.",
            )
        self._region = found["region"]
        self._account = {"CatalogId": found["account"]} if found["account"] else {}
        self._warehouse = warehouse
        self._opened: tuple[int, Any] | None = None
        self._lock = Lock()

    def pointers(self, tables: Sequence[Table]) -> list[str | None]:
        for table in tables:
            refuse_name(table, _NAME)
        with _translated():
            return [_pointer(table, self._entry(table)) for table in tables]

    def insert(self, table: Table, pointer: str, metadata: TableMetadata) -> bool:
        refuse_name(table, _NAME)
        entry = {
            "Name": table.name,
            "TableType": "EXTERNAL_TABLE",
            "Parameters": new_parameters(pointer),
            "StorageDescriptor": _storage(metadata),
        }
        with _translated():
            self._make_database(table.domain)
            return self._done(
                "create_table", "AlreadyExistsException", DatabaseName=table.domain, TableInput=entry
            )

    def move(self, table: Table, expected: str, pointer: str, metadata: Callable[[], TableMetadata]) -> bool:
        with _translated():
            entry = self._entry(table)
            if entry is None or _pointer(table, entry) != expected:
                return False
            storage = entry.get("StorageDescriptor", {})
            # Glue drops the fields of an entry that an update does not repeat.
            taken = self._glue.meta.service_model.shape_for("TableInput").members
            wanted = {name: value for name, value in entry.items() if name in taken} | {
                "Parameters": entry["Parameters"] | {POINTER: pointer, BEFORE: expected},
                "StorageDescriptor": storage | _storage(metadata(), storage.get("Columns", ())),
            }
            return self._done(
                "update_table",
                "ConcurrentModificationException",
                DatabaseName=table.domain,
                TableInput=wanted,
                VersionId=_version(table, entry),
                SkipArchive=True,
            )

    def remove(self, table: Table, expected: str) -> bool:
        with _translated():
            if _pointer(table, self._entry(table)) != expected:
                return False
            return self._done(
                "delete_table", "EntityNotFoundException", DatabaseName=table.domain, Name=table.name
            )

    def is_ready(self) -> bool:
        with _translated():
            self._glue.get_databases(MaxResults=1, **self._account)
        return True

    def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None and opened[0] == os.getpid():
            opened[1].close()

    @property
    def _glue(self) -> Any:
        """The client; a process that was forked makes its own, since the parent's connections are the parent's."""
        with self._lock:
            if self._opened is None or self._opened[0] != os.getpid():
                wanted = Config(
                    connect_timeout=5, read_timeout=20, retries={"max_attempts": 5, "mode": "standard"}
                )
                try:
                    client = boto3.Session(region_name=self._region).client("glue", config=wanted)
                except ValueError as error:
                    raise _unavailable(error) from error  # such as an endpoint that is no URL
                self._opened = os.getpid(), client
            return self._opened[1]

    def _entry(self, table: Table) -> dict[str, Any] | None:
        """Return the catalog's entry of *table*, None if it has none."""
        try:
            found = self._glue.get_table(DatabaseName=table.domain, Name=table.name, **self._account)
        except ClientError as error:
            if _code(error) == "EntityNotFoundException":
                return None
            raise
        return dict(found["Table"])

    def _make_database(self, name: str) -> None:
        try:
            self._glue.get_database(Name=name, **self._account)
        except ClientError as error:
            if _code(error) != "EntityNotFoundException":
                raise
            wanted = {"Name": name, "LocationUri": f"{self._warehouse}/{name}"}
            self._done("create_database", "AlreadyExistsException", DatabaseInput=wanted)

    def _done(self, operation: str, refusal: str, **given: Any) -> bool:
        """Run *operation*; return False if Glue answers with the code *refusal*."""
        try:
            getattr(self._glue, operation)(**given, **self._account)
        except ClientError as error:
            if _code(error) == refusal:
                return False
            raise
        return True


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _pointer(table: Table, entry: dict[str, Any] | None) -> str | None:
    if entry is None:
        return None
    return pointer_in(table, _NAME, entry.get("Parameters", {}), entry.get("TableType", ""))


def _version(table: Table, entry: dict[str, Any]) -> str:
    """:raises StoreUnavailable: the entry has none, so that no update can be compared."""
    if "VersionId" not in entry:
        raise StoreUnavailable(
            f"{_NAME} gives no version of {table.domain}.{table.name}: its pointer cannot be moved safely.",
            next_step="name a catalog that compares versions, such as AWS Glue itself.",
        )
    return str(entry["VersionId"])


def _storage(metadata: TableMetadata, before: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return the columns and the folder as Glue shows them; engines take both from the metadata file.

    :param before: the columns of the entry, whose comments and parameters stay.
    """
    known = {column["Name"]: column for column in before}
    columns = [
        known.get(column.name, {})
        | {"Name": column.name, "Type": column.type_name, "Parameters": _parameters(column)}
        | ({"Comment": column.comment} if column.comment else {})
        for column in columns_of(metadata.schema())
    ]
    return {"Columns": columns, "Location": metadata.location}


def _parameters(column: Column) -> dict[str, str]:
    """Return what Iceberg's own clients say of a column."""
    return {
        "iceberg.field.id": str(column.field_id),
        "iceberg.field.optional": str(column.optional).lower(),
        "iceberg.field.current": "true",
    }


@contextmanager
def _translated() -> Iterator[None]:
    """:raises StoreUnavailable: Glue does not answer, or refuses the request."""
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise _unavailable(error) from error


def _unavailable(error: Exception) -> StoreUnavailable:
    return StoreUnavailable(
        f"{_NAME} does not answer, or refuses the request: {error}",
        next_step="look at the credentials and the endpoint that AWS's tools find here, what they may do with the "
        "database and its tables (glue:Get*, Create*, UpdateTable), and the region; then try again.",
    )
