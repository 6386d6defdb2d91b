"""Operations on restatements: open, look, decide about held epochs, approve, publish, abandon (R28, R29)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from shlex import quote

from airflow_provider.coordination.attempts.publish import publish_members
from airflow_provider.coordination.attempts.reserve import Races
from airflow_provider.coordination.commits.declare import registered
from airflow_provider.coordination.commits.pointers import follow
from airflow_provider.coordination.commits.sealed import refuse_sealed
from airflow_provider.coordination.commits.staged import restatement_of
from airflow_provider.coordination.context import Context
from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.coordination.reading.differences import Difference
from airflow_provider.coordination.reading.resolve import names_of
from airflow_provider.coordination.restating import plan as planning
from airflow_provider.coordination.restating import reruns
from airflow_provider.coordination.restating.grouped import (
    publish_group,
    publish_if_whole,
    refuse_of_group,
    settle_epochs,
    settle_groups,
)
from airflow_provider.coordination.restating.holding import chosen, decisions
from airflow_provider.coordination.restating.late_readers import extend
from airflow_provider.coordination.restating.look import differences, staged_cut
from airflow_provider.coordination.restating.opening import (
    LIFETIME,
    claim_keys,
    refuse_obstacles,
    store_opened,
    store_replaced,
)
from airflow_provider.coordination.restating.opening_revert import open_revert, refuse_overtaken_copies
from airflow_provider.coordination.restating.plan import Plan
from airflow_provider.coordination.restating.refusals import (
    not_computed,
    readers_not_computed,
    refuse_another,
    refuse_blank,
    refuse_unapproved,
)
from airflow_provider.coordination.restating.reverting import Reverting
from airflow_provider.coordination.restating.skipped_copies import copy_members
from airflow_provider.coordination.retrying import ReadAgain
from airflow_provider.coordination.upkeep.left_members import end_members
from airflow_provider.coordination.upkeep.members_now import MembersNow, MemberStatus, StagedMember
from airflow_provider.domain.cut import Cut
from airflow_provider.domain.epoch import AlreadyStaged
from airflow_provider.domain.epoch_id import EpochId
from airflow_provider.domain.errors import Conflict, DependentReaders, EpochError, InvalidInput
from airflow_provider.domain.identifiers import (
    JobName,
    RestatementId,
    TableName,
    domain_name,
    restatement_id,
    validate_text,
)
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Stamped, job_key, restatement_key, table_key, topology_key
from airflow_provider.domain.restatement import (
    Decision,
    HeldEpochs,
    JobEpochs,
    RestatementRecord,
    RestatementState,
    epochs_of,
    refuse_closed,
)
from airflow_provider.domain.schedule import ExplicitInterval
from airflow_provider.domain.topology import Group, Job
from airflow_provider.stores.base import MetadataReader, Reading, pages

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class RestatementStatus:
    """A restatement and its members as they stand.

    :param output: digest of what is staged; empty while members are missing. An approval names it.
    :param held: committed epochs that keep it from being published until they join it or are released.
    :param csn: of its commit; None while it is not published.
    """

    name: RestatementId
    record: RestatementRecord
    members: tuple[MemberStatus, ...]
    output: str
    csn: int | None
    held: tuple[HeldEpochs, ...] = ()


@dataclass(frozen=True, slots=True)
class Restatements:
    """Operations on the restatements of a store's domains."""

    context: Context
    cuts: Cuts

    @property
    def reader(self) -> MetadataReader:
        """The reading side of the store, which asks again while the store does not answer."""
        return self.cuts.reader

    def plan(self, domain: str, names: Sequence[str], interval: ExplicitInterval) -> Plan:
        """Return what a restatement of *interval* of *names* would compute: see :func:`~.plan.plan`."""
        return planning.plan(self.reader, domain_name(domain), names, interval)

    def open(
        self,
        domain: str,
        names: Sequence[str],
        interval: ExplicitInterval,
        *,
        name: str,
        reason: str,
        by: str,
        needs_approval: bool = False,
        lifetime: timedelta = LIFETIME,
    ) -> RestatementRecord:
        """Open a restatement: from now on its epochs are computed within it, and normal runs leave them alone.

        Repeating it with the same name returns what is open.

        :param names: jobs, or tables, whose committed epochs of *interval* are computed again, with all that has read
            them. :param reason: why; kept with it. :param by: its author.
        :param lifetime: time from now until its deadline.
        :raises InvalidInput: as :meth:`plan`; or another restatement has the name.
        :raises TopologyError: the plan has obstacles; the error lists them.
        """
        where, key_name = domain_name(domain), restatement_id(name)
        refuse_blank(reason=reason, by=by)
        if not isinstance(lifetime, timedelta) or lifetime <= timedelta(0):
            raise InvalidInput(field="lifetime", value=lifetime, expected="a positive timedelta")

        def operation() -> RestatementRecord:
            store, key = self.context.store, restatement_key(where, key_name)
            reading = store.read(where, [*claim_keys(where), key])
            known = reading.get(key)
            planned = planning.plan(store, where, names, interval)
            if known is not None:
                return refuse_another(key_name, known.record, planned.asked, reason)
            refuse_obstacles(planned)
            record = RestatementRecord(
                reason=reason.strip(),
                by=by.strip(),
                asked=planned.asked,
                members=planned.members,
                incarnation=reading.head.incarnation,
                deadline=reading.now + lifetime,
                needs_approval=needs_approval,
            )
            store_opened(self.context, where, reading, key_name, record)
            return record

        return self.context.retry(operation, Conflict.of_others(f"domain {where!r}", "changing it"))

    def of_rerun(
        self, job: Job, epochs: Sequence[Interval], owner: Owner, *, reason: str
    ) -> RestatementId | None:
        """Take *epochs* that a run computes again into the restatement of its DAG: see :func:`~.reruns.of_rerun`."""
        return reruns.of_rerun(self.context, job, epochs, owner, reason=reason)

    def all(self, domain: str) -> list[tuple[RestatementId, Stamped[RestatementRecord]]]:
        """Return all restatements of *domain*, by name."""
        found = pages(self.reader, domain_name(domain), RestatementRecord)
        return [(RestatementId(stamped.key.item), stamped) for stamped in found]

    def status(self, domain: str, name: str) -> RestatementStatus:
        """Return a restatement and its members.

        :raises UnknownName: no such restatement in the domain.
        """
        now = self._now(domain, name)
        record = now.record
        if record.state is not RestatementState.OPEN:
            is_published = record.state is RestatementState.PUBLISHED
            csn = now.stamped.csn if is_published else None
            return RestatementStatus(name=now.name, record=record, members=(), output="", csn=csn)
        staged, missing = now.staged()
        return RestatementStatus(
            name=now.name,
            record=record,
            members=tuple(now.status()),
            output="" if missing else now.output(staged),
            csn=None,
            held=() if record.is_group else planning.holding(self.reader, now.domain, record).held,
        )

    def cut(self, domain: str, name: str, tables: Iterable[str], *, at: datetime | None = None) -> Cut:
        """Return a cut of *tables* as it will be after the restatement's commit: see :func:`~.look.staged_cut`.

        :raises NotReady: members are not staged. :raises InvalidInput: the restatement is over.
        """
        now = self._restatement_now(domain, name, "cut")
        return staged_cut(self.cuts, now, self._all_staged(now), names_of(tables), at)

    def differences(
        self, domain: str, name: str, tables: Iterable[str] | None = None
    ) -> dict[TableName, Difference]:
        """Return the rows that it adds and removes, by table, of the newest states: see :func:`~.look.differences`.

        :raises NotReady: members are not staged. :raises InvalidInput: the restatement is over.
        """
        now = self._restatement_now(domain, name, "differences")
        wanted = None if tables is None else names_of(tables)
        return differences(self.cuts, now, self._all_staged(now), wanted)

    def join(
        self, domain: str, name: str, jobs: Sequence[str], *, by: str, reason: str = ""
    ) -> tuple[JobEpochs, ...]:
        """Make the epochs of *jobs* that hold a restatement its members, with all that has read them.

        :return: those that held it; a repetition returns none.

        :param reason: why; empty where the restatement's own reason says it. It is kept, as is its author.
        :raises InvalidInput: the restatement is over, or no epoch of one of *jobs* holds it.
        :raises UnknownName: no such restatement or job. :raises TopologyError: they cannot be computed again.
        """
        return self._decide(domain, name, jobs, Decision.JOINED, by=by, reason=reason)

    def release(
        self, domain: str, name: str, jobs: Sequence[str], *, reason: str, by: str
    ) -> tuple[JobEpochs, ...]:
        """Let the epochs of *jobs* that hold a restatement stay as they are when it is published; return them.

        From then on their rows carry a label, as behind an ``ignore`` edge. Epochs that are committed later hold it
        again. A repetition returns none.

        :param reason: why; kept, as is its author.
        :raises InvalidInput: the restatement is over, or no epoch of one of *jobs* holds it.
        :raises UnknownName: no such restatement or job.
        """
        refuse_blank(reason=reason)
        return self._decide(domain, name, jobs, Decision.RELEASED, by=by, reason=reason)

    def _decide(
        self, domain: str, name: str, jobs: Sequence[str], decision: Decision, *, by: str, reason: str
    ) -> tuple[JobEpochs, ...]:
        refuse_blank(by=by)
        where = domain_name(domain)
        names = [registered(self.reader, domain, job).name for job in jobs]
        why = validate_text(reason, "reason")

        def operation() -> tuple[JobEpochs, ...]:
            now = self._restatement_now(domain, name, "decisions")
            reading = self.reader.read(where, claim_keys(where))
            outside = planning.holding(self.reader, where, now.record)
            found = chosen(now.name, now.record, outside, names, decision)
            made = decisions(found, decision, by=by, reason=why, at=reading.now)
            record = replace(now.record, decisions=(*now.record.decisions, *made))
            if not found:
                return ()
            if decision is Decision.RELEASED:
                self._replace(now, record)
                return tuple(found)
            joining = epochs_of(found)
            planned = planning.replanned(self.reader, where, now.name, now.record, joining=joining)
            refuse_obstacles(planned)
            self._replace(now, replace(record, members=planned.members), reading)
            return tuple(found)

        return self.context.retry(operation, Conflict.of_others(f"restatement {name!r}", "changing it"))

    def approve(self, domain: str, name: str, *, output: str, by: str) -> None:
        """Approve what is staged, and nothing else: a member that is computed again ends the approval.

        :param output: digest of what was looked at (:attr:`RestatementStatus.output`).
        :raises NotReady: members are not staged. :raises Conflict: another output is staged.
        :raises InvalidInput: the restatement is over.
        """
        refuse_blank(by=by)
        if not isinstance(output, str) or not _DIGEST.fullmatch(output):
            raise InvalidInput(
                field="output",
                value=output,
                expected="the digest that status and diff show: 64 hexadecimal digits",
            )

        def operation() -> None:
            now = self._restatement_now(domain, name, "approval")
            staged = self._all_staged(now)
            found = now.output(staged)
            if output != found:
                raise Conflict(
                    f"restatement {now.name!r}: {output!r} was looked at, and {found!r} is staged.",
                    next_step=f"look again: `airflow epochs restate diff {quote(now.name)}`.",
                )
            self._replace(now, replace(now.record, approved=found, approved_by=by.strip()))

        self.context.retry(operation, Conflict.of_others(f"restatement {name!r}", "changing it"))

    def publish(self, domain: str, name: str) -> int:
        """Publish all members at one CSN, or nothing of them; return the CSN. A repetition returns the same.

        :raises NotReady: members are not staged; or committed epochs have read since what it replaces: these are
            members from then on, to be computed, too; or epochs hold it: see :meth:`join` and :meth:`release`.
        :raises InvalidInput: it is over, or not approved.
        :raises Conflict: what members have read has changed: compute them again. Others are those of publish, but for
            :class:`DependentReaders`.
        """
        races = Races(self.context)

        def operation() -> int:
            now = self._now(domain, name)
            if now.record.state is RestatementState.PUBLISHED:
                self._follow(now)
                return now.stamped.csn or 0
            if now.record.is_group:
                return publish_group(self.context, now)
            now = self._open_now(domain, name)
            copy_members(self.context, now)
            refuse_overtaken_copies(self.context, now)
            staged = self._all_staged(now)
            refuse_unapproved(now.name, now.record, now.output(staged))
            attempts = [member.attempt for member in staged]
            try:
                return publish_members(self.context, attempts, now.together(staged), races.of(attempts[0]))[
                    0
                ].csn
            except DependentReaders as error:
                extend(self.context, now, error)
                raise ReadAgain from error  # these readers keep it back no more

        return self.context.retry(operation, Conflict.of_others(f"restatement {name!r}", "changing it"))

    def revert(self, domain: str, name: str, *, reason: str, by: str, with_readers: bool = False) -> int:
        """Give the epochs of a published restatement the rows back that it has replaced, by one commit; return its CSN.

        The rows are copied. A repetition goes on where an earlier call was interrupted, or returns the same.

        :param with_readers: epochs that have read its rows since are members of the revert: their jobs compute them
            again within it, as those of any restatement, before it is published.
        :raises InvalidInput: the restatement is not published.
        :raises NotReady: readers are members, and not computed yet: a repetition publishes once they are.
        :raises DependentReaders: other epochs have read its rows since; the error lists them.
        :raises TopologyError: one of its epochs was computed again since, or has other inputs now.
        :raises Unavailable: the versions before it are not held any more. Others are those of :meth:`publish`.
        """
        refuse_blank(reason=reason, by=by)
        now = self._now(domain, name)
        refuse_of_group(now, "revert")
        within = open_revert(self.context, now, reason=reason, by=by, with_readers=with_readers)
        if self._now(domain, within).record.state is RestatementState.OPEN:
            Reverting(self.context, now.domain, now.name, now.stamped, is_open=True).copy(within, by)
            copied = self._now(domain, within)
            copy_members(self.context, copied)
            if (missing := copied.staged()[1]) and copied.record.state is RestatementState.OPEN:
                raise readers_not_computed(now.name, within, missing)
        return self.publish(domain, within)

    def abandon(self, domain: str, name: str, *, reason: str, by: str) -> None:
        """End a restatement without a commit, and delete what its members have staged; again after an interruption.

        :raises InvalidInput: it is published.
        """
        refuse_blank(reason=reason, by=by)
        where = domain_name(domain)

        def mark() -> MembersNow:
            now = self._now(domain, name)
            if now.record.state is RestatementState.PUBLISHED:
                raise InvalidInput(
                    f"restatement {now.name!r} is published at CSN {now.stamped.csn}.",
                    next_step=f"`airflow epochs restate revert {quote(now.name)} --reason …` takes it back; another "
                    "one computes its epochs again.",
                    field="restatement",
                    value=now.name,
                    expected="a restatement that is not published",
                )
            reading = self.context.store.read(where, claim_keys(where))
            refuse_sealed(where, reading.get(topology_key(where)))
            if now.record.state is RestatementState.OPEN:
                why = f"{reason.strip()} ({by.strip()})"
                # Its name stays in the topology until all members have ended: a vacuum goes on with an interrupted end.
                self._replace(now, replace(now.record, state=RestatementState.ABANDONED, ended=why), reading)
            return now

        now = self.context.retry(mark, Conflict.of_others(f"restatement {name!r}", "changing it"))
        end_members(self.context, where, now.name, now.record)

    def _follow(self, now: MembersNow) -> None:
        """Move pointers of the members' tables that an interrupted publish has left behind (R17)."""
        formats, domain = self.context.formats, now.domain
        own = [job_key(domain, epochs.job) for epochs in now.record.members]
        jobs = self.reader.read(domain, own).records.values()  # without those that were dropped since
        tables = [table for job in jobs for table in job.record.outputs]
        keys = [table_key(domain, table.name) for table in tables]
        follow(formats, self.reader.read(domain, keys, pointers=formats.swapped(tables)), tables)

    def _all_staged(self, now: MembersNow) -> list[StagedMember]:
        staged, missing = now.staged()
        if missing:
            raise not_computed(now.name, now.record, missing)
        return staged

    def _now(self, domain: str, name: str, known: Stamped[RestatementRecord] | None = None) -> MembersNow:
        where, key_name = domain_name(domain), restatement_id(name)
        stamped = known or restatement_of(self.reader, where, key_name)
        return MembersNow(self.reader, where, key_name, stamped, self.context.defaults.lock_ttl)

    def _open_now(self, domain: str, name: str) -> MembersNow:
        """:raises InvalidInput: it is over."""
        now = self._now(domain, name)
        reading = self.reader.read(now.domain, [])
        refuse_closed(now.name, now.record, incarnation=reading.head.incarnation, now=reading.now)
        return replace(now, head=reading.head.csn)

    def _restatement_now(self, domain: str, name: str, what: str) -> MembersNow:
        """:raises InvalidInput: it is over, or the barrier of a group, which has no *what*."""
        now = self._open_now(domain, name)
        refuse_of_group(now, what)
        return now

    def publish_if_whole(
        self, staged: AlreadyStaged, within: Stamped[RestatementRecord] | None = None
    ) -> int | None:
        """Publish the group with the member *staged*: see :func:`~.grouped.publish_if_whole`.

        :param within: its record as it was before: its list of jobs stays while one of them has an attempt.
        """
        now = self._now(staged.domain, staged.restatement, within)
        csn = publish_if_whole(self.context, now, staged.job) if now.record.is_group else None
        if csn is not None:
            self.settle_epochs(staged)  # its jobs may have left a barrier of another group
        return csn

    def settle_groups(
        self, domain: str, job: JobName, group: Group | None = None, *, before: datetime | None = None
    ) -> None:
        """Publish barriers that wait no more for *job*: see :func:`~.grouped.settle_groups`."""
        settle_groups(self.context, self.reader, domain_name(domain), job, group, before=before)

    def settle_epochs(self, *epochs: EpochId) -> tuple[EpochError, ...]:
        """Publish barriers that waited for *epochs* alone: see :func:`~.grouped.settle_epochs`."""
        return settle_epochs(self.context, self.reader, epochs)

    def _replace(self, now: MembersNow, record: RestatementRecord, before: Reading | None = None) -> None:
        """Write *record* in place of the one that was read: see :func:`~.opening.store_replaced`."""
        store_replaced(self.context.store, now.domain, now.stamped, record, before=before)
