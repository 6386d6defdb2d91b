"""Errors after which the same request may succeed later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Self

from airflow_provider.domain.error_families import RetryableError
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.owner import Owner

if TYPE_CHECKING:  # Airflow imports errors in every process, and these modules a calendar library
    from airflow_provider.domain.interval import Interval


@dataclass(kw_only=True, eq=False, repr=False)
class Conflict(RetryableError):
    """Another commit changed a record that this attempt decided on; stage or resolve again (R11, R13).

    :param job: name of the job concerned. :param source: name of the source. :param lease: id of the lease.
    :param tables: names of the tables that changed. :param column: path of the column that is new.
    :param expected: revision of the source that was read. :param found: its newest revision.
    :param keys: domain, kind, partition and item of each record that differs.
    """

    job: str = ""
    source: str = ""
    lease: str = ""
    tables: tuple[str, ...] = ()
    column: str = ""
    expected: int | None = None
    found: int | None = None
    keys: tuple[tuple[str, str, str, str], ...] = ()

    @classmethod
    def of_others(cls, subject: str, doing: str, *, job: str = "", source: str = "", lease: str = "") -> Self:
        """Return the error for *subject*, with which others kept *doing* something each time it was tried."""
        return cls(
            f"{subject}: others kept {doing}.", next_step="try again.", job=job, source=source, lease=lease
        )

    @classmethod
    def of_moving(cls, during: str, tables: Sequence[str], *, next_step: str = "read again.") -> Self:
        """Return the error for *tables* that moved during each of several looks at them."""
        return cls(f"the tables kept moving while {during}.", next_step=next_step, tables=tuple(tables))


@dataclass(kw_only=True, eq=False, repr=False)
class StoreUnavailable(RetryableError):
    """The metadata store did not answer; nothing was changed by this call.

    :param store: address of the store, without secrets. :param absent: True if there is no store there yet.
    """

    store: str = ""
    absent: bool = False


@dataclass(kw_only=True, eq=False, repr=False)
class PackageTooOld(RetryableError):
    """A newer version of the package wrote data that this version cannot read; an upgraded host goes on.

    :param store: address of the metadata store, without secrets, if its schema is newer.
    :param key: domain, kind, partition and item of the record that is newer. :param field: path of the unknown field.
    :param expected: what this version knows (schema, format or names of fields), as text.
    :param found: what is there, as text.
    """

    store: str = ""
    key: tuple[str, str, str, str] | None = None
    field: str = ""
    expected: str
    found: str


@dataclass(kw_only=True, eq=False, repr=False)
class SourceUnavailable(RetryableError):
    """A source did not answer; no bounds were recorded.

    :param source: name of the source.
    """

    source: str

    @classmethod
    def of(
        cls, source: str, place: str, reason: str, *, check: str = "it runs and that this host reaches it"
    ) -> Self:
        """Return the error for *source*, of which *place* did not answer, for *reason*; say what to *check*."""
        return cls(
            f"source {source!r}: {place} did not answer: {reason}.",
            next_step=f"check that {check}; the task tries again.",
            source=source,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class UnknownConnection(RetryableError):
    """Airflow has no connection ``conn_id``, or its secrets backend does not answer: Airflow reports both alike.

    :param conn_id: id of the connection.
    """

    conn_id: str


@dataclass(kw_only=True, eq=False, repr=False)
class NotReady(RetryableError):
    """Inputs or tables have not reached the barrier yet.

    :param missing: what is waited for, each with its ``name``, the ``reason`` as text, and for tables the barrier
        ``wanted`` and the ``watermark`` (datetimes); empty if nothing is committed of any table.
    :param job: name of the job that is to run. :param interval: its epoch.
    :param source: name of the source that is not ready.
    """

    missing: tuple[Missing, ...]
    job: str = ""
    interval: Interval | None = None
    source: str = ""

    @classmethod
    def of_source(cls, source: str, place: str, reason: str, *, interval: Interval, next_step: str) -> Self:
        """Return the error for *source*, of which *place* is not ready for *interval*."""
        return cls(
            f"source {source!r} is not ready for {interval}: {reason}.",
            next_step=next_step,
            source=source,
            missing=(Missing(name=place, reason=reason, wanted=interval.end),),
            interval=interval,
        )

    @classmethod
    def of_absent(cls, source: str, table: str, *, place: str = "") -> Self:
        """Return the error for *source*, of which there is no *table* (in *place*, if given)."""
        reason = f"there is no table {table}" + (f" in {place}" if place else "")
        return cls(
            f"source {source!r} is not ready: {reason}.",
            next_step="wait until its owner creates it, or correct the table in the declaration of the source.",
            source=source,
            missing=(Missing(name=table, reason=reason),),
        )

    @classmethod
    def of_tables(cls, missing: tuple[Missing, ...], *, next_step: str, why: str = "") -> Self:
        """Return the error for tables that a cut waits for; *why* comes before them."""
        return cls(f"{why}{'; '.join(map(str, missing))}.", next_step=next_step, missing=missing)


@dataclass(kw_only=True, eq=False, repr=False)
class EpochBusy(RetryableError):
    """A live attempt of another owner holds the epoch, or what is to change is in use.

    :param job: name of the job. :param interval: the epoch, if one is asked for.
    :param holder: owner of the live attempt. :param until: end of its lock, unless it is renewed.
    :param holders: attempts and leases that use a whole job or domain, as text.
    """

    job: str = ""
    interval: Interval | None = None
    holder: Owner | None = None
    until: datetime | None = None
    holders: tuple[str, ...] = ()

    @classmethod
    def of_attempt(
        cls, what: str, *, job: str, holder: Owner, until: datetime, interval: Interval | None = None
    ) -> Self:
        """Return the error for *what*, which is computed by the live attempt of *holder*."""
        return cls(
            f"{what} is computed by {holder}, whose lock lasts until {until.isoformat()}.",
            next_step="wait for it to end, or stop that run; the lock ends by itself when it is silent.",
            job=job,
            interval=interval,
            holder=holder,
            until=until,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class LeaseHeld(RetryableError):
    """A live lease of another owner has the id.

    :param lease: the id. :param holder: owner of the lease. :param until: end of the lease, unless it is renewed.
    """

    lease: str
    holder: str
    until: datetime

    @classmethod
    def of(cls, lease: str, holder: str, until: datetime, *, next_step: str) -> Self:
        """Return the error for the id *lease*, which *holder* has."""
        message = f"lease {lease!r} is held by {holder!r} until {until.isoformat()}."
        return cls(message, next_step=next_step, lease=lease, holder=holder, until=until)
