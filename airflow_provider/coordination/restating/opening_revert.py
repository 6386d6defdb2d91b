"""The opening of a revert: the restatement that takes a published one back, with or without what has read it (R30)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from shlex import quote

from airflow_provider.coordination.commits.adopt import adopt
from airflow_provider.coordination.commits.staged import restatement_of
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.restating.closure import HeldEpoch
from airflow_provider.coordination.restating.holding import decisions
from airflow_provider.coordination.restating.opening import (
    LIFETIME,
    claim_keys,
    refuse_obstacles,
    store_opened,
)
from airflow_provider.coordination.restating.plan import Plan, replanned
from airflow_provider.coordination.restating.reverting import Reverting
from airflow_provider.coordination.upkeep.members_now import MembersNow, job_of
from airflow_provider.domain.declaration import JobDeclaration
from airflow_provider.domain.dependent import Dependent
from airflow_provider.domain.errors import (
    Conflict,
    DependentReaders,
    EpochBusy,
    InvalidInput,
    TopologyError,
)
from airflow_provider.domain.identifiers import DomainName, JobName, RestatementId, TableName, restatement_id
from airflow_provider.domain.keys import Stamped
from airflow_provider.domain.records import restatement_key, topology_key
from airflow_provider.domain.restatement import (
    Decision,
    JobEpochs,
    RestatementRecord,
    RestatementState,
    change_set_of_restatement,
    epochs_of,
    is_over,
    name_of_revert,
    state_of,
)
from airflow_provider.domain.topology import OnForeignCommit
from airflow_provider.stores.base import Reading

_LISTED = 5

_OF_UNPUBLISHED = {
    RestatementState.OPEN: "`airflow epochs restate abandon {name} --reason …` ends it; readers see none of its rows.",
    RestatementState.ABANDONED: "nothing is to be taken back: readers have seen none of its rows.",
}
"""Next steps of a refused revert, by the state of the restatement."""


def open_revert(
    context: Context, now: MembersNow, *, reason: str, by: str, with_readers: bool
) -> RestatementId:
    """Open the restatement that takes the published one *now* back, or find the one that an earlier call has opened.

    :param with_readers: epochs that have read its rows since become members, which their jobs compute again.
    :raises InvalidInput: it is not published. :raises DependentReaders: other epochs have read its rows since.
    :raises TopologyError: one of its epochs was computed again since, or a reader cannot be.
    :raises Unavailable: its former rows are gone.
    """
    reason, by = reason.strip(), by.strip()
    _refuse_unpublished(context, now)
    within = restatement_id(name_of_revert(now.name))  # which may be too long for a name
    _adopt_what_is_there(context, now)
    store, where, key = context.store, now.domain, restatement_key(now.domain, within)

    def operation() -> None:
        reading = store.read(where, [*claim_keys(where), key])
        if _is_open(context, now, within, reading):
            return
        _refuse_losses(context, now)
        planned = _planned(context, now, within)
        if not with_readers:
            _refuse_readers(context, now, planned)
        refuse_obstacles(planned)
        record = RestatementRecord(
            reason=reason,
            by=by,
            asked=now.record.asked,
            members=planned.members,
            incarnation=reading.head.incarnation,
            deadline=reading.now + LIFETIME,
            reverts=now.name,
            decisions=tuple(
                decisions(planned.released, Decision.RELEASED, by=by, reason=reason, at=reading.now)
            ),
        )
        store_opened(context, where, reading, within, record)

    context.retry(operation, Conflict.of_others(f"domain {where!r}", "changing it"))
    return within


def plan_revert(context: Context, now: MembersNow) -> tuple[Plan, tuple[JobEpochs, ...]]:
    """Return the plan of a revert of the published restatement *now*, and those members that have read its rows.

    :raises InvalidInput: it is not published.
    """
    _refuse_unpublished(context, now)
    planned = _planned(context, now, restatement_id(name_of_revert(now.name)))
    return planned, readers_in(planned, now.record)


def readers_in(planned: Plan, record: RestatementRecord) -> tuple[JobEpochs, ...]:
    """Return the members of the *planned* revert that are not among those of the restatement: its later readers."""
    known = set(record.epochs)
    found = (
        replace(epochs, intervals=tuple(span for span in epochs.intervals if (epochs.job, span) not in known))
        for epochs in planned.members
    )
    return tuple(epochs for epochs in found if epochs.intervals)


def _refuse_unpublished(context: Context, now: MembersNow) -> None:
    """:raises InvalidInput: the restatement *now* is not published."""
    if now.record.state is RestatementState.PUBLISHED:
        return
    reading = context.store.read(now.domain, [])
    over = is_over(now.record, incarnation=reading.head.incarnation, now=reading.now)
    raise InvalidInput(
        field="restatement",
        value=now.name,
        expected=f"a published restatement; this one is {state_of(now.record, is_over=over)}",
        next_step=_OF_UNPUBLISHED[now.record.state].format(name=quote(now.name)),
    )


def refuse_overtaken_copies(context: Context, revert: MembersNow) -> None:
    """Refuse to publish *revert* where its copies would take rows away, or repeat them, that came while it was open.

    Does nothing for other restatements.

    :raises TopologyError, Unavailable: as :func:`open_revert`.
    """
    if (name := revert.record.reverts) is not None:
        stamped = restatement_of(context.store, revert.domain, name)
        now = MembersNow(context.store, revert.domain, name, stamped)
        _adopt_what_is_there(context, now)
        _refuse_losses(context, now)


def _refuse_losses(context: Context, now: MembersNow) -> None:
    reverting = Reverting(context, now.domain, now.name, now.stamped)
    reverting.former()
    reverting.refuse_files_elsewhere(reverting.held())


def _is_open(context: Context, now: MembersNow, within: RestatementId, reading: Reading) -> bool:
    """Return True if the revert of *now* is open or published already; False if it is to be opened, maybe anew.

    :param reading: has its record, and the domain's topology.
    :raises EpochBusy: it was abandoned or is past its deadline, and attempts of it are left.
    :raises InvalidInput: another restatement has its name.
    """
    known = reading.get(restatement_key(now.domain, within))
    if known is None:
        return False
    if known.record.reverts != now.name:
        raise InvalidInput(field="restatement", value=within, expected="a name that no other restatement has")
    if known.record.state is RestatementState.PUBLISHED:
        _refuse_overtaken(context, now, within, known)
        return True
    if not is_over(known.record, incarnation=reading.head.incarnation, now=reading.now):
        return True
    if within in reading.of(topology_key(now.domain)).record.restating:
        raise EpochBusy(
            f"{within!r} has ended without a commit, and its attempts have not all ended.",
            next_step=f"`airflow epochs restate abandon {quote(within)} --reason …` ends them; then revert again.",
            holders=(f"restatement {within}",),
        )
    return False


def _refuse_overtaken(
    context: Context, now: MembersNow, within: RestatementId, revert: Stamped[RestatementRecord]
) -> None:
    """Refuse to call *now* taken back where its epochs were computed again since its *revert*, published as *within*.

    Epochs that had read its rows, and were computed within the revert, do not count.

    :raises TopologyError: names what has computed the first of them.
    """
    ours, members = change_set_of_restatement(within), MembersNow(context.store, now.domain, within, revert)
    for epoch, committed in members.committed():
        is_own = now.record.has(epoch.job, epoch.interval)
        if is_own and committed is not None and committed.change_set != ours:
            raise TopologyError(
                f"restatement {now.name!r} was taken back by {within!r} (CSN {revert.csn}), and {epoch.job} "
                f"{epoch.interval} was computed again since, by {committed.change_set!r}.",
                next_step="`airflow epochs restate list` says which takes which back: revert the one that has computed "
                "them, or open another one.",
                job=epoch.job,
                interval=epoch.interval,
            )


def _adopt_what_is_there(context: Context, now: MembersNow) -> None:
    """Adopt rows of other programs in the members' tables, as the revert's publish would, before it is decided."""
    for epochs in now.record.members:
        job = job_of(context.store, now.domain, epochs.job)
        for table in () if job.retired else JobDeclaration.of(job).job().outputs:
            if table.on_foreign_commit is OnForeignCommit.ADOPT:
                adopt(context, table)


def _planned(context: Context, now: MembersNow, within: RestatementId) -> Plan:
    """Return the plan of a revert: the restatement's members, and what has read them. Released epochs stay again."""
    csn = now.stamped.csn or 0

    def stays(held: HeldEpoch) -> bool:
        """Return True if it still stands on the rows that the restatement has replaced."""
        return now.record.is_released(held.job, held.epoch.interval) and not held.has_read_since(csn)

    return replanned(context.store, now.domain, within, now.record, stays=stays)


def _refuse_readers(context: Context, now: MembersNow, planned: Plan) -> None:
    """:raises DependentReaders: other epochs have read what would change."""
    readers = [*epochs_of(readers_in(planned, now.record)), *epochs_of(planned.held)]
    if readers:
        asked = now.record.asked[0].intervals[0]
        changed = {table for epochs in planned.members for table in _outputs(context, now.domain, epochs.job)}
        raise DependentReaders.of(
            f"restatement {now.name!r} cannot be reverted: committed epochs have read its rows",
            tuple(
                Dependent(job=job, interval=interval, tables=_read(context, now.domain, job, changed))
                for job, interval in readers[:_LISTED]
            ),
            maybe_more=len(readers) > _LISTED,
            next_step=f"`airflow epochs restate revert {quote(now.name)} --with-readers --reason …` computes these "
            "again, too, before anything is visible.",
            interval=asked,
        )


def _outputs(context: Context, domain: DomainName, job: JobName) -> tuple[TableName, ...]:
    return tuple(table.name for table in job_of(context.store, domain, job).outputs)


def _read(
    context: Context, domain: DomainName, job: JobName, changed: Collection[TableName]
) -> tuple[TableName, ...]:
    """Return those of the tables *changed* that *job* reads."""
    read = {edge.table for edge in job_of(context.store, domain, job).edges}
    return tuple(sorted(read.intersection(changed)))
