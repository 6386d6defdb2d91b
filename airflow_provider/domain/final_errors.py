"""Errors after which the same request will fail again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Self

from airflow_provider.domain.checks import Finding
from airflow_provider.domain.error_families import FinalError
from airflow_provider.domain.foreign import Foreign
from airflow_provider.domain.owner import Owner

if TYPE_CHECKING:  # Airflow imports errors in every process, and these modules a calendar library
    from airflow_provider.domain.dependent import Dependent
    from airflow_provider.domain.interval import Interval


@dataclass(kw_only=True, eq=False, repr=False)
class Fenced(FinalError):
    """A newer token exists; this attempt is over and has changed nothing (R10).

    :param expected: token of this attempt, or number of the try of its participant.
    :param found: the newest token, or number of the participant's newest try; None if there is no attempt any more.
    :param by: owner of the newest attempt, if there is one.
    """

    expected: int | None = None
    found: int | None = None
    by: Owner | None = None

    @classmethod
    def of(
        cls, attempt: object, why: str, *, next_step: str, expected: int, found: int | None, by: Owner | None
    ) -> Self:
        """Return the error for *attempt*, which is over because of *why*."""
        message = f"{attempt}: this attempt is over; {why}."
        return cls(message, next_step=next_step, expected=expected, found=found, by=by)


@dataclass(kw_only=True, eq=False, repr=False)
class StoreReplaced(Fenced):
    """The attempt was begun in the store before a restore or the promotion of a standby (R33).

    The next try of its task begins anew.

    :param begun_in: incarnation of the store that the attempt was begun in.
    :param incarnation: incarnation of the store now.
    """

    begun_in: str
    incarnation: str


@dataclass(kw_only=True, eq=False, repr=False)
class LeaseExpired(FinalError):
    """The claim on a cut ended before the read did (R22).

    :param attempt: the attempt whose lock was the claim, as text. :param lease: id of the lease.
    :param tables: names of the tables of the cut. :param until: end of the lease.
    :param late: time from the end of the lock to the look at it.
    """

    attempt: str = ""
    lease: str = ""
    tables: tuple[str, ...] = ()
    until: datetime | None = None
    late: timedelta | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class Unavailable(FinalError):
    """The requested states, rows or files no longer exist.

    :param tables: names of the tables concerned. :param barrier: barrier at which their states are gone.
    :param kept: the nearest barriers before and after it that can be read; none if that is not known.
    :param source: name of the source concerned. :param readers: epochs that have read what was recorded of it.
    :param expected: what was recorded, as text. :param found: what is there now, as text.
    :param uri: the file concerned. :param uris: the files, where there are several.
    :param snapshot: id of the snapshot of a source's table.
    :param key: value of the source's transaction key. :param id: id of the row that came late.
    """

    tables: tuple[str, ...] = ()
    barrier: datetime | None = None
    kept: tuple[datetime, ...] = ()
    source: str = ""
    readers: tuple[Dependent, ...] = ()
    expected: str = ""
    found: str = ""
    uri: str = ""
    uris: tuple[str, ...] = ()
    snapshot: int | None = None
    key: str = ""
    id: int | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class CheckFailed(FinalError):
    """A declared check refused the staged data (R14).

    :param findings: what the checks that failed have found.
    :param places: folders that keep the staged rows until the epoch is begun again, as URIs.
    """

    findings: tuple[Finding, ...]
    places: tuple[str, ...]


@dataclass(kw_only=True, eq=False, repr=False)
class MissingLibrary(FinalError):
    """An optional library is not installed; the next step has the command.

    :param library: name of the library.
    """

    library: str


@dataclass(kw_only=True, eq=False, repr=False)
class RecordFull(FinalError):
    """A record would exceed its limit, and nothing was changed.

    :param record: what the record has too many of. :param number: number of entries that it would have.
    :param limit: the greatest number.
    """

    record: str
    number: int
    limit: int

    @classmethod
    def of(cls, record: str, number: int, limit: int, *, next_step: str) -> Self:
        """Return the error for *record*, which would have *number* entries, more than *limit*."""
        return cls(
            f"{record}: {number} would exceed the limit of {limit}.",
            next_step=next_step,
            record=record,
            number=number,
            limit=limit,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class UnknownName(FinalError):
    """Nothing of that name is known, such as a job or a table that is not registered in the domain.

    :param domain: name of the domain. :param job: the unknown job, as each of the following is.
    :param table: name of a table. :param source: name of a source. :param lease: id of a lease.
    :param conn_id: id of an Airflow connection. :param restatement: name of a restatement.
    """

    restatement: str = ""
    domain: str = ""
    job: str = ""
    table: str = ""
    source: str = ""
    lease: str = ""
    conn_id: str = ""

    @classmethod
    def of_job(cls, job: str, domain: str) -> Self:
        """Return the error for *job*, which is not registered in *domain*."""
        return cls(
            f"job {job!r} is not registered in domain {domain!r}.", next_step=_JOBS, job=job, domain=domain
        )

    @classmethod
    def of_table(cls, table: str, domain: str, *, meant: str = "", next_step: str = "") -> Self:
        """Return the error for *table*, which is not registered in *domain*; *meant* suggests other names."""
        return cls(
            f"table {table!r} is not registered in domain {domain!r}{meant}.",
            next_step=next_step or _TABLES,
            table=table,
            domain=domain,
        )

    @classmethod
    def of_empty(cls, domain: str, *, what: str) -> Self:
        """Return the error for *domain*, which has no *what* (``job`` or ``table``)."""
        step = _JOBS if what == "job" else _TABLES
        return cls(f"domain {domain!r} has no {what}.", next_step=step, domain=domain)


_JOBS = "see `airflow epochs status`; a job registers when it first runs."
_TABLES = "see `airflow epochs status`; a job registers its tables when it first runs."


@dataclass(kw_only=True, eq=False, repr=False)
class TopologyError(FinalError):
    """A registration contradicts the topology (R6).

    :param job: name of the job that is refused. :param table: name of the table concerned.
    :param tables: names of the tables, where there are several. :param source: name of the source.
    :param owner: name of the job that has the table or the source.
    :param interval: the epoch concerned. :param barrier: the barrier concerned.
    :param expected: what is registered, as text. :param found: what is declared or asked for, as text.
    :param readers: epochs that have read what would change.
    :param cycle: names of jobs that read each other, the first one again at the end.
    :param field: name of the declaration's field. :param files: URIs of files that would be read twice.
    :param read_by: epoch that has read these files.
    """

    job: str = ""
    table: str = ""
    tables: tuple[str, ...] = ()
    source: str = ""
    owner: str = ""
    interval: Interval | None = None
    barrier: datetime | None = None
    expected: str = ""
    found: str = ""
    readers: tuple[Dependent, ...] = ()
    cycle: tuple[str, ...] = ()
    field: str = ""
    files: tuple[str, ...] = ()
    read_by: Interval | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class DependentReaders(FinalError):
    """A committed epoch cannot be computed again: committed readers depend on it.

    :param readers: committed epochs that have read it, each with ``job``, ``interval`` and names of ``tables``.
    :param interval: the epoch, or the first one of several.
    :param intervals: all epochs that cannot be computed again, where several are asked for.
    :param source: name of the source whose rows would change.
    """

    readers: tuple[Dependent, ...]
    interval: Interval
    intervals: tuple[Interval, ...] = ()
    source: str = ""

    @classmethod
    def of(
        cls,
        what: str,
        readers: tuple[Dependent, ...],
        *,
        interval: Interval,
        next_step: str,
        source: str = "",
        maybe_more: bool = False,
    ) -> Self:
        """Return the error that says *what* of *interval* cannot change, with the *readers* of it."""
        listed = "; ".join(map(str, readers)) + ("; and maybe more." if maybe_more else ".")
        return cls(
            f"{what}: {listed}", next_step=next_step, readers=readers, interval=interval, source=source
        )


@dataclass(kw_only=True, eq=False, repr=False)
class ForeignCommit(FinalError):
    """Another program wrote to the table outside the protocol (R17).

    :param table: name of the table. :param expected: version or address that the store has, as text.
    :param found: version or address in the catalog, or what else was changed, as text.
    :param foreign: the other program's commits. :param uri: the pointer, if it is none of this package.
    """

    table: str = ""
    expected: str = ""
    found: str = ""
    foreign: Foreign = Foreign()  # noqa: RUF009 - it is frozen
    uri: str = ""


@dataclass(kw_only=True, eq=False, repr=False)
class SchemaMismatch(FinalError):
    """Rows or declared changes do not fit the table's columns (R32).

    :param table: name of the table. :param column: path of the column, the first one of several; empty for none.
    :param expected: type, columns or change that the table has, as text. :param found: what is given, as text.
    """

    table: str
    column: str
    expected: str
    found: str


@dataclass(kw_only=True, eq=False, repr=False)
class StoreIncompatible(FinalError):
    """The store's schema, record format or capabilities do not fit this version of the package.

    :param store: address of the store, without secrets. :param missing: capabilities that the store lacks.
    :param key: domain, kind, partition and item of the record concerned. :param node: the node, in ZooKeeper.
    :param source: name of the source whose record it is. :param field: name of the setting that asks too much.
    :param expected: version, format or type that fits, as text. :param found: what is there, as text.
    """

    store: str = ""
    missing: tuple[str, ...] = ()
    key: tuple[str, str, str, str] | None = None
    node: str = ""
    source: str = ""
    field: str = ""
    expected: str = ""
    found: str = ""
