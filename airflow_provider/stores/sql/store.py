"""The metadata store over any SQL database; what databases do differently is in their ``SqlDialect``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from sqlalchemy import Connection, Row
from sqlalchemy.exc import SQLAlchemyError
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import from_micros
from airflow_provider.domain.records import Key, Kind, Stamped, commit_item
from airflow_provider.domain.version import CommitRecord
from airflow_provider.stores.base import (
    Exists,
    Head,
    MetadataStore,
    Number,
    Reading,
    Receipt,
    RequirementFailed,
    Transaction,
)
from airflow_provider.stores.requests import CheckedTransaction, check_keys, check_limit, check_text, checked
from airflow_provider.stores.schema_status import Fit, SchemaStatus
from airflow_provider.stores.sql import migrate, rows, statements
from airflow_provider.stores.sql.dialect import SqlDialect

_Answer = TypeVar("_Answer")


class SqlStore(MetadataStore):
    """A store in a SQL database; :meth:`open` makes sure that the database fits.

    :param dialect: the database, and how it is spoken to.
    """

    def __init__(self, dialect: SqlDialect) -> None:
        self._dialect = dialect
        self._closed = False
        self.capabilities = dialect.capabilities

    def __repr__(self) -> str:
        return f"SqlStore({self._dialect.location})"

    def open(self) -> SqlStore:
        """Check the database and, when it is embedded and empty, make its schema.

        :raises InvalidInput: the address cannot be a database.
        :raises StoreIncompatible: it has another schema; says what to run.
        :raises StoreUnavailable: it does not answer.
        """
        self.prepare()
        found = self.schema_status()
        if found.fit is Fit.EMPTY and self._dialect.embedded:
            found = self.upgrade_schema()
        found.require_current()
        return self

    def prepare(self) -> None:
        """Make an empty database where an embedded one is missing.

        :raises InvalidInput: the address cannot be a database.
        """
        self._dialect.prepare(create=self._dialect.embedded)

    def schema_status(self) -> SchemaStatus:
        """Look at the schema; changes nothing."""
        return self._run(lambda connection: migrate.status(connection, self._dialect.location), write=False)

    def upgrade_schema(self) -> SchemaStatus:
        """Bring the schema up to date, wholly or not at all."""
        return self._run(lambda connection: migrate.upgrade(connection, self._dialect.location), write=True)

    # --- reading ---------------------------------------------------------------------------------------------

    def read(self, domain: DomainName, keys: Sequence[Key]) -> Reading:
        check_keys(domain, keys)

        def work(connection: Connection) -> tuple[Head, int, Sequence[Row[Any]]]:
            head = connection.execute(statements.HEAD, {"domain": domain}).one()
            statement = statements.records(self._dialect.wanted)
            parameters = {"domain": domain, "keys": self._dialect.addresses(dict.fromkeys(keys))}
            found = connection.execute(statement, parameters).all()
            return Head(head.csn or 0, head.incarnation), self._dialect.now_us(connection), found

        head, now_us, found = self._run(work, write=False)
        records = [rows.stamped(domain, row) for row in found]
        return Reading(head, from_micros(now_us), {stamped.key: stamped for stamped in records})

    def scan(
        self,
        domain: DomainName,
        kind: Kind,
        partition: str,
        *,
        start: str | None = None,
        end: str | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[Stamped[Any]]:
        check_text("domain", domain, empty=False)
        check_text("partition", partition, empty=True)
        for bound in (start, end):
            check_text("item", bound or "", empty=True)
        check_limit(limit)
        statement = statements.scan(
            domain, kind, partition, start=start, end=end, limit=limit, reverse=reverse
        )
        found = self._run(lambda connection: connection.execute(statement).all(), write=False)
        return [rows.stamped(domain, row) for row in found]

    def changes(self, domain: DomainName, after: int, *, limit: int = 1000) -> list[Stamped[CommitRecord]]:
        return self.scan(domain, Kind.COMMIT, "", start=commit_item(after + 1), limit=limit)

    def domains(self) -> list[DomainName]:
        found = self._run(lambda connection: connection.execute(statements.DOMAINS).all(), write=False)
        return sorted(DomainName(row.domain) for row in found)

    def watch(self, domain: DomainName, after: int, timeout: timedelta) -> int:
        check_text("domain", domain, empty=False)
        return self._dialect.wait(lambda: self._head(domain), after, timeout)

    def _head(self, domain: DomainName) -> int:
        found = self._run(
            lambda connection: connection.execute(statements.HEAD, {"domain": domain}).one(), write=False
        )
        return found.csn or 0

    # --- changing --------------------------------------------------------------------------------------------

    def transact(self, transaction: Transaction) -> Receipt:
        request = checked(transaction, self.capabilities)
        return self._run(
            lambda connection: self._transact(connection, request, transaction.number), write=True
        )

    def _transact(
        self, connection: Connection, request: CheckedTransaction, number: Number | None
    ) -> Receipt:
        """Take the number first: its row is the queue of those who publish; nothing is kept if a check fails."""
        csn = None if number is None else self._take_number(connection, request.domain)
        self._require(connection, request)
        for swap in request.swaps:
            statements.swap_pointer(connection, swap)
        if number is not None:
            self._require_number(connection, number, csn)
        at_us = self._dialect.now_us(connection)
        version = self._dialect.next_version(connection)
        written = rows.written(request, version=version, csn=csn, at_us=at_us)
        if written:
            connection.execute(statements.put(self._dialect.upsert), written)
        if request.deletes:
            parameters = {"domain": request.domain, "keys": self._dialect.addresses(request.deletes)}
            connection.execute(statements.removal(self._dialect.wanted), parameters)
        return Receipt(csn=csn, at=from_micros(at_us), versions={put.key: version for put, _ in request.puts})

    def _require_number(self, connection: Connection, number: Number, csn: int | None) -> None:
        """:raises RequirementFailed: another CSN, or another incarnation of the store."""
        if number.expected not in (None, csn):
            raise RequirementFailed.of(number, csn)
        if number.incarnation is not None:
            incarnation = connection.scalars(statements.INCARNATION).one()
            if incarnation != number.incarnation:
                raise RequirementFailed.of(number, incarnation)

    def _take_number(self, connection: Connection, domain: DomainName) -> int:
        return int(connection.scalars(statements.take_number(self._dialect.upsert), {"domain": domain}).one())

    def _require(self, connection: Connection, request: CheckedTransaction) -> None:
        """:raises RequirementFailed: for the first requirement that does not hold."""
        if not request.requires:
            return
        found = self._versions(connection, request.domain, [one.key for one in request.requires])
        for requirement in request.requires:
            version = found.get(requirement.key)
            if version != (requirement.version if isinstance(requirement, Exists) else None):
                raise RequirementFailed.of(requirement, version)

    def _versions(self, connection: Connection, domain: DomainName, keys: Sequence[Key]) -> Mapping[Key, int]:
        statement = self._dialect.holding(statements.versions(self._dialect.wanted))
        parameters = {"domain": domain, "keys": self._dialect.addresses(dict.fromkeys(keys))}
        return {rows.key(domain, row): row.version for row in connection.execute(statement, parameters)}

    def close(self) -> None:
        self._closed = True
        self._dialect.engine().dispose()

    # --- transactions ----------------------------------------------------------------------------------------

    def _run(self, work: Callable[[Connection], _Answer], *, write: bool) -> _Answer:
        """Do *work* in one transaction; send it again while others are in the way and patience lasts."""
        if self._closed:
            raise InvalidInput(
                field="store", value=self, expected="an open store", next_step="open it again."
            )
        sending = Retrying(
            retry=retry_if_exception(self._dialect.is_transient),
            wait=wait_random_exponential(multiplier=0.0005, max=0.02),
            stop=stop_after_delay(self._dialect.patience().total_seconds()),
            reraise=True,
        )
        try:
            answer: _Answer = sending(self._try, work, write=write)
        except SQLAlchemyError as error:
            raise self._dialect.translated(error, committing=False) from error
        return answer

    def _try(self, work: Callable[[Connection], _Answer], *, write: bool) -> _Answer:
        """One try: errors of the driver that are not transient leave it translated."""
        committing = False
        try:
            with self._dialect.operation(), self._dialect.engine().connect() as connection:
                self._dialect.begin(connection, write=write)
                answer = work(connection)
                committing = write
                connection.commit()
                return answer
        except SQLAlchemyError as error:
            if self._dialect.is_transient(error):
                raise
            raise self._dialect.translated(error, committing=committing) from error
