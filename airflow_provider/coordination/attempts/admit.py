"""What keeps an attempt from beginning, before any work is done: what has ended, and what others have read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from urllib.parse import quote

from airflow_provider.coordination.commits.dependents import refuse_dependents, together
from airflow_provider.coordination.context import Context
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.epoch import Provenance
from airflow_provider.domain.errors import InvalidInput, TopologyError, Unavailable
from airflow_provider.domain.identifiers import JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.origins import refuse_unjoined
from airflow_provider.domain.records import Stamped
from airflow_provider.domain.registration import JobRecord, refuse_not_own
from airflow_provider.domain.sizes import refuse_gaps
from airflow_provider.domain.topology import Job
from airflow_provider.domain.version import TableRecord

MOST_PARTICIPANTS = 1_000
_REQUIREMENTS_BYTES = 600_000
"""What publish may require of participants in one transaction: two thirds of what every store's can hold."""
_KEY_BYTES = 170
"""What a store adds to the names of a domain and a job in the address of a participant's try."""

Tables = Mapping[TableName, Stamped[TableRecord] | None]


def most_participants(job: Job) -> int:
    """How many may write an epoch of *job*: publish requires of each, by name, that it has not begun again (R10)."""
    each = 2 * (len(quote(job.domain)) + len(quote(job.name)) + _KEY_BYTES)
    return min(MOST_PARTICIPANTS, _REQUIREMENTS_BYTES // each)


def refuse_participants(number: object, job: Job) -> None:
    """:raises InvalidInput: it is no number of participants, or more than one publish can hold in every store."""
    most = most_participants(job)
    if type(number) is not int or not 1 <= number <= most:
        raise InvalidInput(
            field="participants",
            value=number,
            expected=f"a number from 1 to {most}",
            next_step="let each participant write more: one transaction publishes them all.",
        )


def refuse_shared_ttl(ttl: object, defaults: Defaults) -> None:
    """:raises InvalidInput: participants cannot all be silent for so long; None is taken."""
    if ttl is not None and not (
        isinstance(ttl, timedelta) and defaults.lock_ttl <= ttl <= defaults.lease_longest
    ):
        raise InvalidInput(
            field="lock_ttl",
            value=ttl,
            expected=f"a timedelta from {defaults.lock_ttl} to {defaults.lease_longest}",
        )


def refuse_ended(job: JobRecord, own: Tables) -> None:
    """:raises TopologyError: nothing more is to come of the job, or of one of the tables it declares here (R7)."""
    if job.retired:
        raise TopologyError(
            f"job {job.name!r} is retired: {job.retired}.",
            next_step=f"pause its DAG; `airflow epochs revive {job.name}` brings the job back.",
            job=job.name,
            reason=job.retired,
        )
    for name, stamped in own.items():
        if stamped is not None:
            refuse_not_own(job.name, name, stamped.record)


def refuse_expired_inputs(job: JobName, interval: Interval, gone: Sequence[Provenance]) -> None:
    """:raises Unavailable: *gone* is not empty: what the epoch would read was expired (R24)."""
    if gone:
        raise Unavailable(
            f"{job} {interval}: expired: "
            + ", ".join(f"{read.table} at {read.high.isoformat()}" for read in gone)
            + ".",
            next_step="leave this epoch: what it would read was taken back by retention.",
            tables=tuple(read.table for read in gone),
            kept=(),
        )


def refuse_changes(
    context: Context,
    job: Job,
    interval: Interval,
    own: Tables,
    *,
    fills: tuple[TableName, ...],
    skips: bool,
) -> None:
    """Refuse an attempt whose commit would change what committed epochs have read (R18).

    :param fills: the tables that it adds to the epoch; empty for all.
    :raises DependentReaders: they are listed. :raises TopologyError: an epoch that no later one could follow.
    :raises RecordFull: a table would have more gaps than its record holds.
    """
    known = {name: one.record for name, one in own.items() if one is not None}
    refuse_gaps(interval, known, context.defaults.most_stretches)
    if not skips:
        refuse_unjoined(job.name, interval, job.edges, job.outputs, known)
    written = {name: one for name, one in known.items() if not fills or name in fills}
    spans = {name: one.progress.changed_by(interval) for name, one in written.items()}
    for span, names in together(spans).items():
        refuse_dependents(context.store, job.domain, names, span, context.defaults, commits=interval)
