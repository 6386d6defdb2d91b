"""Hive metastore as a catalog whose pointers follow the store. Thrift without Kerberos.

A pointer is moved under the table's lock, as Iceberg's Hive catalog does, so that both exclude each other. Newer
servers (HIVE-26882) compare the pointer themselves, too. See docs/decisions/catalogs.md.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from getpass import getuser
from typing import Any
from urllib.parse import unquote

from hive_metastore import ThriftHiveMetastore, ttypes
from pyiceberg.table.metadata import TableMetadata
from thrift import Thrift
from thrift.protocol import TBinaryProtocol
from thrift.transport import TSocket, TTransport

from airflow_provider.domain.errors import EpochError, InvalidInput, StoreUnavailable
from airflow_provider.domain.topology import Table
from airflow_provider.tables.iceberg.catalogs.base import (
    BEFORE,
    POINTER,
    PointerCatalog,
    new_parameters,
    pointer_in,
    refuse_name,
)
from airflow_provider.tables.iceberg.catalogs.columns import columns_of

FORM = "hive://[USER@]HOST:PORT[,HOST:PORT...]"
_URL = re.compile(r"hive://(?:(?P<user>[^@/:?#]+)@)?(?P<hosts>[^@/?#]+)")
_CONNECT_TIMEOUT_MS = 5_000
_TIMEOUT_MS = 20_000
_LOCK_WAIT_S = 10.0
_LOCK_PAUSE_S = 0.1
_NAME = "the Hive metastore"
_AGENT = "airflow-provider-epochs"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Server:
    host: str
    port: int


class HivePointerCatalog(PointerCatalog):
    """Tables in the Hive metastore at *url*: databases are domains.

    :param url: as :data:`FORM`; the first server that answers is asked. Without a user, that of this process.
    :param warehouse: URI below which tables lie.
    :raises InvalidInput: *url* has another form.
    """

    def __init__(self, url: str, warehouse: str) -> None:
        found = _URL.fullmatch(url)
        if found is None:
            raise InvalidInput(
                field="catalog",
                value="(a URL)",
                expected=FORM,
                next_step="correct the catalog's address; Kerberos is not supported.",
            )
        self._user = unquote(found["user"] or "") or _own_name()
        self._servers = [_server(text) for text in found["hosts"].split(",")]
        self._warehouse = warehouse

    def pointers(self, tables: Sequence[Table]) -> list[str | None]:
        for table in tables:
            refuse_name(table, _NAME)
        with self._client() as client:
            return [_pointer(table, _entry(client, table)) for table in tables]

    def insert(self, table: Table, pointer: str, metadata: TableMetadata) -> bool:
        refuse_name(table, _NAME)
        entry = ttypes.Table(
            dbName=table.domain,
            tableName=table.name,
            owner=self._user,
            createTime=int(time.time()),
            sd=_storage(metadata),
            partitionKeys=[],
            parameters={"EXTERNAL": "TRUE", **new_parameters(pointer)},
            tableType="EXTERNAL_TABLE",
        )
        with self._client() as client:
            self._make_database(client, table.domain)
            try:
                client.create_table_with_environment_context(entry, _context())
            except ttypes.AlreadyExistsException:
                return False
            except ttypes.InvalidObjectException as error:
                raise InvalidInput(
                    field="schema",
                    value=f"{table.domain}.{table.name}",
                    expected=f"columns that {_NAME} takes: {error.message}",
                    next_step="rename the column, or name a SQL catalog.",
                ) from None  # the error of the client cannot be chained: it is immutable
        return True

    def move(self, table: Table, expected: str, pointer: str, metadata: Callable[[], TableMetadata]) -> bool:
        described = metadata()
        with self._client() as client:
            lock = _Lock(self._client, table, self._user)
            try:
                lock.take(client)
                entry = _entry(client, table)
                if entry is None or _pointer(table, entry) != expected:
                    return False
                entry.parameters |= {POINTER: pointer, BEFORE: expected}
                before = entry.sd.cols, entry.sd.location
                entry.sd.cols, entry.sd.location = _columns(described, entry.sd.cols), described.location
                try:
                    return _altered(client, entry, expected, lock)
                except ttypes.InvalidOperationException:
                    # It forbids columns whose types differ from those before (disallow.incompatible.col.type.changes).
                    # Engines take the columns from the metadata, so that the entry may show the earlier ones.
                    entry.sd.cols, entry.sd.location = before
                    return _altered(client, entry, expected, lock)
            finally:
                lock.give_back(client)

    def remove(self, table: Table, expected: str) -> bool:
        with self._client() as client:
            held = _Lock(self._client, table, self._user)
            try:
                held.take(client)
                if _pointer(table, _entry(client, table)) != expected:
                    return False
                held.renew(client)
                client.drop_table(table.domain, table.name, deleteData=False)
                return True
            finally:
                held.give_back(client)

    def is_ready(self) -> bool:
        with self._client() as client:
            client.get_all_databases()
        return True

    def close(self) -> None:
        """Do nothing: each call has a connection of its own, which no fork and no thread shares."""

    def _make_database(self, client: Any, name: str) -> None:
        with suppress(ttypes.NoSuchObjectException):
            client.get_database(name)
            return
        with suppress(ttypes.AlreadyExistsException):
            client.create_database(ttypes.Database(name=name, locationUri=f"{self._warehouse}/{name}"))

    @contextmanager
    def _client(self) -> Iterator[Any]:
        """Connect to the first server that answers.

        :raises StoreUnavailable: none does, or the one that did fails or refuses a request.
        """
        transport = None
        try:
            transport = self._connected()
            client = ThriftHiveMetastore.Client(TBinaryProtocol.TBinaryProtocol(transport))
            client.set_ugi(self._user, [self._user])
            yield client
        except (Thrift.TException, OSError, UnicodeError) as error:
            text = getattr(error, "message", "") or str(error) or type(error).__name__
            raise StoreUnavailable(
                f"{_NAME} does not answer, or refuses the request: {text}",
                next_step="look at its log, its address in the connection and what its user may do; then try again.",
            ) from error
        finally:
            if transport is not None:
                transport.close()

    def _connected(self) -> Any:
        *others, last = self._servers
        for server in others:
            with suppress(TTransport.TTransportException, OSError):
                return _opened(server)
        return _opened(last)


def _server(text: str) -> _Server:
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isdecimal():
        raise InvalidInput(
            field="catalog", value=text, expected=FORM, next_step="give each server as host:port."
        )
    return _Server(host.strip("[]"), int(port))


def _own_name() -> str:
    """Return the name of this process's user; its number where the host has no name for it."""
    try:
        return getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _opened(server: _Server) -> Any:
    endpoint = TSocket.TSocket(server.host, server.port)
    endpoint.setTimeout(_CONNECT_TIMEOUT_MS)
    transport = TTransport.TBufferedTransport(endpoint)
    transport.open()
    endpoint.setTimeout(_TIMEOUT_MS)
    return transport


def _entry(client: Any, table: Table) -> Any:
    """Return the metastore's entry of *table*, None if it has none."""
    try:
        return client.get_table(table.domain, table.name)
    except ttypes.NoSuchObjectException:
        return None


def _pointer(table: Table, entry: Any) -> str | None:
    return None if entry is None else pointer_in(table, _NAME, entry.parameters, entry.tableType)


def _storage(metadata: TableMetadata) -> Any:
    """Return the columns and the folder as the metastore shows them; engines take both from the metadata file."""
    return ttypes.StorageDescriptor(
        _columns(metadata, None),
        metadata.location,
        "org.apache.hadoop.mapred.FileInputFormat",
        "org.apache.hadoop.mapred.FileOutputFormat",
        serdeInfo=ttypes.SerDeInfo(serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"),
        parameters={},
    )


def _columns(metadata: TableMetadata, before: Sequence[Any] | None) -> list[Any]:
    """Return the columns of *metadata*; their comments, or those that columns of that name had *before*."""
    comments = {column.name: column.comment for column in before or ()}
    return [
        ttypes.FieldSchema(column.name, column.type_name, column.comment or comments.get(column.name))
        for column in columns_of(metadata.schema())
    ]


def _context(**compared: str) -> Any:
    """Return what goes with a request: the metastore would list all files of the table for its own statistics."""
    return ttypes.EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true", **compared})


def _altered(client: Any, entry: Any, expected: str, lock: _Lock) -> bool:
    """Replace the metastore's entry if its pointer is *expected*; return whether it was.

    The lock says so already, unless a program moves pointers without it. Servers before HIVE-26882 do not compare.

    :raises StoreUnavailable: the lock is not held any more.
    """
    lock.renew(client)
    compared = {"expected_parameter_key": POINTER, "expected_parameter_value": expected}
    try:
        client.alter_table_with_environment_context(
            entry.dbName, entry.tableName, entry, _context(**compared)
        )
    except ttypes.MetaException as error:
        if "has been modified" in (error.message or ""):
            return False
        raise
    return True


class _Lock:
    """The metastore's exclusive lock of *table*.

    :param connect: opens a connection of its own, for a lock that the first one cannot give back.
    """

    def __init__(self, connect: Callable[[], AbstractContextManager[Any]], table: Table, user: str) -> None:
        self._connect, self._table, self._user = connect, table, user
        self._id: int | None = None

    def take(self, client: Any) -> None:
        """:raises StoreUnavailable: another program holds it for too long."""
        component = ttypes.LockComponent(
            level=ttypes.LockLevel.TABLE,
            type=ttypes.LockType.EXCLUSIVE,
            dbname=self._table.domain,
            tablename=self._table.name,
            operationType=ttypes.DataOperationType.NO_TXN,
        )
        request = ttypes.LockRequest(
            component=[component], user=self._user, hostname=socket.gethostname(), agentInfo=_AGENT
        )
        lock = client.lock(request)
        self._id = lock.lockid
        deadline = time.monotonic() + _LOCK_WAIT_S
        while lock.state == ttypes.LockState.WAITING and time.monotonic() < deadline:
            time.sleep(_LOCK_PAUSE_S)
            lock = client.check_lock(ttypes.CheckLockRequest(lockid=lock.lockid))
        if lock.state != ttypes.LockState.ACQUIRED:
            raise StoreUnavailable(
                f"another program holds the Hive metastore's lock of {self._table.domain}.{self._table.name}.",
                next_step="nothing while that program runs: the next touch of the table moves the pointer. A lock "
                "whose program died ends only where the metastore's housekeeping is on: see `SHOW LOCKS` in Hive.",
            )

    def renew(self, client: Any) -> None:
        """:raises StoreUnavailable: the metastore has ended it, since this process stood still."""
        try:
            client.heartbeat(ttypes.HeartbeatRequest(lockid=self._id))
        except (ttypes.NoSuchLockException, ttypes.NoSuchTxnException, ttypes.TxnAbortedException):
            self._id = None
        if self._id is None:
            raise StoreUnavailable(
                f"the Hive metastore has ended the lock of {self._table.domain}.{self._table.name} meanwhile.",
                next_step="nothing: the next touch of the table moves the pointer.",
            )

    def give_back(self, client: Any) -> None:
        """Give it back, also by another connection; what stays is logged."""
        if self._id is None:
            return
        request = ttypes.UnlockRequest(lockid=self._id)
        try:
            client.unlock(request)
        except (Thrift.TException, OSError):
            try:
                with self._connect() as other:
                    other.unlock(request)
            except EpochError as error:
                log.warning("A lock of table %s stays in the metastore: %s", self._table.name, error)
