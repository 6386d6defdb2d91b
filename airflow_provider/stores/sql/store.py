"""Metadata store on any SQL database; a ``SqlDialect`` does what differs between databases."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, TypeVar

from sqlalchemy import Connection, update
from sqlalchemy.exc import SQLAlchemyError
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from airflow_provider.domain.errors import InvalidInput, StoreUnavailable
from airflow_provider.domain.format_marks import FORMAT
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import from_micros
from airflow_provider.domain.records import Key, Kind, Stamped, commit_item
from airflow_provider.domain.version import CommitRecord
from airflow_provider.stores.base import (
    Exists,
    MetadataStore,
    Number,
    Reading,
    Receipt,
    RequirementFailed,
    Transaction,
)
from airflow_provider.stores.remembering import Remembered
from airflow_provider.stores.requests import (
    CheckedTransaction,
    check_keys,
    check_scan,
    check_text,
    checked_again,
)
from airflow_provider.stores.schema_status import Fit, SchemaStatus
from airflow_provider.stores.sql import migrate, rows, statements
from airflow_provider.stores.sql.dialect import Held, Purpose, SqlDialect
from airflow_provider.stores.sql.schema import store_table

_Answer = TypeVar("_Answer")


class SqlStore(MetadataStore):
    """Store in a SQL database; :meth:`open` checks that the database fits.

    :param dialect: interface to the database.
    """

    def __init__(self, dialect: SqlDialect) -> None:
        self._dialect = dialect
        self._closed = False
        self._remembered = Remembered()
        self._format = FORMAT
        self.capabilities = dialect.capabilities

    @property
    def format(self) -> int:
        if self._format < FORMAT:  # another process may have upgraded it since
            self.schema_status()
        return self._format

    def __repr__(self) -> str:
        return f"SqlStore({self._dialect.location})"

    def open(self, *, create: bool = True) -> SqlStore:
        """Check the database and, when it is embedded and empty, make its schema.

        :param create: create the schema of an empty embedded database; read-only callers pass False.
        :raises InvalidInput: the address cannot be a database.
        :raises StoreIncompatible: the database has another schema; says what to run.
        :raises StoreUnavailable: the database does not answer, or (with ``absent``) does not exist.
        """
        try:
            self._dialect.prepare(create=create and self._dialect.embedded)
            looks = self._dialect.embedded and not create
            self._refuse_absent(looks and not self._dialect.is_there())
            found = self.schema_status()
            self._refuse_absent(looks and found.fit is Fit.EMPTY)
            if found.fit is Fit.EMPTY and self._dialect.embedded:
                found = self.upgrade_schema()
            found.require_usable()
        except BaseException:
            self.close()
            raise
        return self

    def _refuse_absent(self, absent: bool) -> None:
        if absent:
            raise StoreUnavailable(
                f"there is no store at {self._dialect.location}; a read-only call does not create one.",
                next_step="check the address (the host of the connection); `airflow epochs db upgrade`, or the first "
                "run of a job, creates the store.",
                store=self._dialect.location,
                absent=True,
            )

    def prepare(self) -> None:
        """Create an empty database if an embedded one is missing.

        :raises InvalidInput: the address cannot be a database.
        """
        self._dialect.prepare(create=self._dialect.embedded)

    def schema_status(self) -> SchemaStatus:
        """Return the state of the schema. Read-only."""
        found = self._run(lambda connection: migrate.status(connection, self._dialect.location))
        self._format = found.format
        return found

    def upgrade_schema(self) -> SchemaStatus:
        """Bring the schema up to date, wholly or not at all."""
        self.prepare()
        return self._run(
            self._upgraded,
            purpose=Purpose.UPGRADE,
            finish=lambda connection, _: connection.commit(),
        )

    def _upgraded(self, connection: Connection) -> SchemaStatus:
        found = migrate.upgrade(connection, self._dialect.location)
        lineage = self._dialect.lineage(connection)
        unknown = store_table.c.lineage.is_(None)
        connection.execute(update(store_table).where(unknown).values(lineage=lineage))
        return found

    def new_incarnation(self) -> str:
        """Give the store a new identity; return it (R33).

        After the return, no transaction that was decided under the previous identity commits any more: the change
        waits for those that are open (:attr:`Purpose.UPGRADE`), and later ones are refused.
        """
        found = self.schema_status()
        found.require_usable()
        new = uuid.uuid4().hex

        def change(connection: Connection) -> None:
            values = {"incarnation": new}
            # A schema of format 1 has no column for the lineage.
            if found.format > 1 and (lineage := self._dialect.lineage(connection)) is not None:
                values["lineage"] = lineage
            connection.execute(update(store_table).values(values))

        self._run(change, purpose=Purpose.UPGRADE, finish=lambda connection, _: connection.commit())
        return new

    # --- reading ---------------------------------------------------------------------------------------------

    def read(self, domain: DomainName, keys: Sequence[Key[Any]], *, pointers: Sequence[str] = ()) -> Reading:
        wanted = list(dict.fromkeys(keys))
        known = self._remembered.among(domain, wanted)
        check_keys(domain, [key for key in wanted if key not in known])
        found = self._run(lambda connection: self._dialect.look(connection, domain, wanted, known, pointers))
        records = dict(known)
        for row in found.rows:
            if rows.is_gone(row):
                del records[rows.key(domain, row)]
            else:
                stamped = self._stamped(domain, row)
                records[stamped.key] = stamped
        return Reading(found.head, from_micros(found.now_us), records, found.pointers)

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
        check_scan(domain, partition, start, end, limit)
        bounds = {"start": start, "end": end, "limit": limit}
        statement = statements.scan(
            **{name: bound is not None for name, bound in bounds.items()}, reverse=reverse
        )
        given = {name: bound for name, bound in bounds.items() if bound is not None}
        where = {"domain": domain, "kind": kind.value, "partition": partition, **given}
        found = self._run(lambda connection: connection.execute(statement, where).all())
        return [self._stamped(domain, row) for row in found]

    def _stamped(self, domain: DomainName, row: Sequence[Any]) -> Stamped[Any]:
        """Return the record in *row*, decoded only if it is not remembered."""
        known = self._remembered.get(rows.key(domain, row))
        if known is not None and rows.is_same(known, row):
            return known
        return self._remembered.keep(rows.stamped(domain, row))

    def changes(self, domain: DomainName, after: int, *, limit: int = 1000) -> list[Stamped[CommitRecord]]:
        return self.scan(domain, Kind.COMMIT, "", start=commit_item(after + 1), limit=limit)

    def domains(self) -> list[DomainName]:
        found = self._run(lambda connection: connection.execute(statements.DOMAINS).all())
        return sorted(DomainName(row.domain) for row in found)

    def watch(self, domain: DomainName, after: int, timeout: timedelta) -> int:
        check_text("domain", domain, empty=False)
        return self._dialect.wait(domain, lambda: self._head(domain), after, timeout)

    def _head(self, domain: DomainName) -> int:
        return self._run(lambda connection: self._dialect.look(connection, domain, [], {}, [])).head.csn

    # --- changing --------------------------------------------------------------------------------------------

    def transact(self, transaction: Transaction) -> Receipt:
        request = checked_again(
            transaction, self.capabilities, self._format, lambda: self.schema_status().format
        )

        def decide(connection: Connection) -> Held:
            held = self._dialect.hold(connection, request)
            _require(request, transaction.number, held)
            return held

        def write(connection: Connection, held: Held) -> None:
            written = rows.written(request, version=held.version, csn=held.csn, at_us=held.at_us)
            self._dialect.write(connection, request, written)

        def at_once(connection: Connection) -> Held:
            written = rows.written(request, version=0, csn=None, at_us=0)
            held = self._dialect.at_once(connection, request, written)
            # The statement has checked the same requirements, and has written nothing if one of them fails. So this
            # check must refuse whatever the statement refuses: otherwise the caller gets a receipt for nothing.
            _require(request, None, held)
            return held

        if self._dialect.can_at_once(request):
            held = self._run(at_once, purpose=Purpose.AT_ONCE)
        else:
            held = self._run(decide, purpose=Purpose.WRITE, finish=write)
        versions = {put.key: held.version for put, _ in request.puts}
        return Receipt(csn=held.csn, at=from_micros(held.at_us), versions=versions)

    def publish_queue(self, domain: DomainName, timeout: timedelta) -> AbstractContextManager[None]:
        return self._dialect.publish_queue(domain, timeout)

    def close(self) -> None:
        self._closed = True
        self._dialect.engine().dispose()

    # --- transactions ----------------------------------------------------------------------------------------

    def _run(
        self,
        work: Callable[[Connection], _Answer],
        *,
        purpose: Purpose = Purpose.READ,
        finish: Callable[[Connection, _Answer], None] | None = None,
    ) -> _Answer:
        """Do *work* in one transaction; try again after transient errors until the dialect's timeout ends.

        :param finish: writes and commits; None for a transaction that only reads, or that commits by itself.
        """
        if self._closed:
            raise InvalidInput(
                field="store", value=self, expected="an open store", next_step="open it again."
            )
        try:
            return self._try(work, purpose, finish)
        except _TransientError:
            return self._again(work, purpose, finish)

    def _again(
        self,
        work: Callable[[Connection], _Answer],
        purpose: Purpose,
        finish: Callable[[Connection, _Answer], None] | None,
    ) -> _Answer:
        """Repeat a transaction whose first try failed with a transient error."""
        sending = Retrying(
            retry=retry_if_exception_type(_TransientError),
            wait=wait_random_exponential(multiplier=0.0005, max=self._dialect.longest_pause_s),
            stop=stop_after_delay(self._dialect.timeout().total_seconds()),
            reraise=True,
        )
        try:
            answer: _Answer = sending(self._try, work, purpose, finish)
        except _TransientError as transient:
            raise self._dialect.translated(transient.error, committing=False) from transient.error
        return answer

    def _try(
        self,
        work: Callable[[Connection], _Answer],
        purpose: Purpose,
        finish: Callable[[Connection, _Answer], None] | None,
    ) -> _Answer:
        """Try a transaction once.

        :raises _TransientError: nothing was changed, and another try is likely to help.
        :raises EpochError: the translation of any other error of the driver.
        """
        # From here on (at once), or from finish() on, a lost answer may hide a commit.
        committing = purpose is Purpose.AT_ONCE
        dialect = self._dialect
        try:
            with (
                dialect.operation(),
                dialect.engine().connect() as connection,
                dialect.transaction(connection, purpose),
            ):
                answer = work(connection)
                if finish is not None:
                    committing = True
                    finish(connection, answer)
                return answer
        except SQLAlchemyError as error:
            if dialect.is_transient(error, committing=committing):
                raise _TransientError(error) from error
            raise dialect.translated(error, committing=committing) from error


class _TransientError(Exception):
    """Nothing was changed, and trying again is likely to help."""

    def __init__(self, error: SQLAlchemyError) -> None:
        super().__init__(error)
        self.error = error


def _require(request: CheckedTransaction, number: Number | None, held: Held) -> None:
    """Check the store, the requirements, the swaps and the number of *request*, in this order.

    :raises RequirementFailed: for the first that does not hold.
    """
    if request.store is not None and request.store.incarnation != held.incarnation:
        raise RequirementFailed.of(request.store, held.incarnation)
    for requirement in request.requires:
        found = held.versions.get(requirement.key)
        if found != (requirement.version if isinstance(requirement, Exists) else None):
            raise RequirementFailed.of(requirement, found)
    for swap in request.swaps:
        pointer = held.pointers.get((swap.namespace, swap.table))
        if pointer != swap.expected:
            raise RequirementFailed.of(swap, pointer)
    if number is not None and number.expected not in (None, held.csn):
        raise RequirementFailed.of(number, held.csn)
