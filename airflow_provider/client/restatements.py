"""Restatements with methods: look at what is staged, approve, publish or abandon it."""

from __future__ import annotations

import getpass
import re
import secrets
from collections.abc import Iterable
from datetime import datetime
from shlex import quote

from airflow_provider.client.cuts import ReadableCut, names_within
from airflow_provider.coordination.commits.declare import registered
from airflow_provider.coordination.commits.staged import restatement_of
from airflow_provider.coordination.reading.differences import Difference
from airflow_provider.coordination.restating.restatements import RestatementStatus
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import DomainName, RestatementId, TableName, restatement_id
from airflow_provider.domain.restatement import JobEpochs, RestatementRecord, unique_name
from airflow_provider.domain.topology import Table

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Restatement:
    """Committed epochs that are computed again with all that has read them, and published by one commit.

    Made by :meth:`Epochs.restate` and :meth:`Epochs.restatement`.

    :ivar domain: its domain. :ivar name: its name, unique in the domain.
    """

    def __init__(self, service: EpochService, domain: DomainName, name: RestatementId) -> None:
        self._service = service
        self.domain = domain
        self.name = name

    @property
    def record(self) -> RestatementRecord:
        """The record as the store has it now: ``reason``, ``by``, ``state``, ``members``, ``deadline``."""
        return record_of(self._service, self.domain, self.name)

    def status(self) -> RestatementStatus:
        """Return how far it is: ``record``, the state of each of its ``members``, ``held``, ``output`` and ``csn``.

        ``held`` are the epochs that need a decision before it is published: :meth:`join`,
        :meth:`release`. ``output`` is the digest of what is staged, for :meth:`approve`; empty while a member is not
        staged.
        """
        return self._service.restatements.status(self.domain, self.name)

    def cut(self, tables: str | Table | Iterable[str | Table], *, at: datetime | None = None) -> ReadableCut:
        """Return a cut of *tables* as it will be once the restatement is published.

        It is of READ_UNCOMMITTED, so that no lease holds it, and ends with the restatement.

        :param at: latest barrier to read; None for the newest that all tables have reached.
        :raises NotReady: members are not staged. :raises InvalidInput: the restatement is over.
        """
        names = names_within(self.domain, tables)
        return ReadableCut(
            self._service, self._service.restatements.cut(self.domain, self.name, names, at=at)
        )

    def diff(self, tables: str | Table | Iterable[str | Table] | None = None) -> dict[TableName, Difference]:
        """Return the rows that it adds to the newest state of each table, and those that it removes.

        :param tables: tables that its members write; None for all of them.
        :raises NotReady: members are not staged.
        :raises InvalidInput: the restatement is over, or its members do not write one of *tables*.
        """
        names = None if tables is None else names_within(self.domain, tables)
        found = self._service.restatements.differences(self.domain, self.name, names)
        unwritten = [name for name in names or () if name not in found]
        if unwritten:
            raise InvalidInput(
                field="table",
                value=unwritten[0],
                expected=f"a table that the restatement writes: {', '.join(self._written())}",
            )
        return found

    def join(
        self, jobs: str | Iterable[str], *, reason: str = "", by: str | None = None
    ) -> tuple[JobEpochs, ...]:
        """Make the epochs of *jobs* that hold it its members, with all that has read them; return those that held it.

        :param jobs: jobs that :meth:`status` names in ``held``. :param reason: why; kept with it.
        :param by: the user who decides it; by default the one who runs this program.
        :raises InvalidInput: it is over, or no epoch of one of *jobs* holds it.
        :raises TopologyError: they cannot be computed again. :raises UnknownName: no such job.
        """
        return self._service.restatements.join(
            self.domain, self.name, _names(jobs), reason=reason, by=user(by)
        )

    def release(
        self, jobs: str | Iterable[str], reason: str, *, by: str | None = None
    ) -> tuple[JobEpochs, ...]:
        """Let the epochs of *jobs* that hold it stay as they are when it is published; return them.

        Their rows carry a label from then on. Epochs that are committed later hold it again.

        :param jobs: jobs that :meth:`status` names in ``held``. :param reason: why; kept with it.
        :param by: the user who decides it; by default the one who runs this program.
        :raises InvalidInput: it is over, or no epoch of one of *jobs* holds it. :raises UnknownName: no such job.
        """
        return self._service.restatements.release(
            self.domain, self.name, _names(jobs), reason=reason, by=user(by)
        )

    def approve(self, output: str, *, by: str | None = None) -> None:
        """Approve what is staged; a member that is computed again ends the approval.

        :param output: digest of what was looked at: ``output`` of a :meth:`status` before :meth:`diff` or :meth:`cut`.
        :param by: the user who approves; by default the one who runs this program.
        :raises Conflict: another output is staged. :raises NotReady: members are not staged.
        :raises InvalidInput: *output* is no digest, or the restatement is over.
        """
        if not isinstance(output, str) or not _DIGEST.fullmatch(output):
            raise InvalidInput(
                field="output",
                value=output,
                expected="the digest of what is staged, 64 hexadecimal digits",
                next_step=f"`airflow epochs restate status {quote(self.name)}` prints it once all epochs are staged.",
            )
        self._service.restatements.approve(self.domain, self.name, output=output, by=user(by))

    def publish(self) -> int:
        """Make all members visible at one CSN, and return it; a repetition returns the same.

        No asset events are sent: ``airflow epochs restate publish NAME``, typed afterwards, sends them.

        :raises NotReady: members are not staged, or committed epochs have read since what it replaces: those are
            members from then on. Or epochs hold it: see :meth:`join` and :meth:`release`.
        :raises InvalidInput: the restatement is over, or its output is not approved and has to be.
        :raises Conflict: what members have read has changed since: compute them again.
        """
        return self._service.restatements.publish(self.domain, self.name)

    def abandon(self, reason: str, *, by: str | None = None) -> None:
        """End it without a commit, and delete what is staged; repeat it after an interruption.

        :param by: the user who decides it; by default the one who runs this program.
        :raises InvalidInput: it is published.
        """
        self._service.restatements.abandon(self.domain, self.name, reason=reason, by=user(by))

    def revert(self, reason: str, *, with_readers: bool = False, by: str | None = None) -> int:
        """Take it back after its publish: its epochs get their former rows, copied, by one commit; return the CSN.

        :param with_readers: epochs that have read its rows since are computed again within the revert, a restatement of
            its own: :class:`NotReady` names them, and a repetition publishes once they are.
        :param by: the user who decides it; by default the one who runs this program.
        :raises InvalidInput: it is not published. :raises DependentReaders: other epochs have read its rows since.
        :raises TopologyError: one of its epochs was computed again since, or has other inputs now.
        :raises Unavailable: its former rows are not held any more.
        """
        return self._service.restatements.revert(
            self.domain, self.name, reason=reason, by=user(by), with_readers=with_readers
        )

    def _written(self) -> list[str]:
        jobs = [registered(self._service.store, self.domain, epochs.job) for epochs in self.record.members]
        return sorted(table.name for job in jobs for table in job.outputs)

    def __repr__(self) -> str:
        return f"<restatement {self.name!r} in {self.domain}>"


def _names(jobs: str | Iterable[str]) -> list[str]:
    """:raises InvalidInput: *jobs* are no names."""
    if isinstance(jobs, str):
        return [jobs]
    if not isinstance(jobs, Iterable):
        raise InvalidInput(field="jobs", value=jobs, expected="the name of a job, or several")
    return list(jobs)


def record_of(service: EpochService, domain: DomainName, name: str) -> RestatementRecord:
    """Return the record of the restatement *name*.

    :raises UnknownName: no such restatement in the domain.
    """
    known = restatement_id(name)
    return service.context.retry(lambda: restatement_of(service.store, domain, known)).record


def default_name(first: str, start: datetime) -> str:
    """Return a name for a restatement of the job or table *first*; each call returns another one."""
    return unique_name(first, start, secrets.token_hex(2))


def user(by: str | None) -> str:
    """Return *by*, by default the name of the user who runs this process."""
    return getpass.getuser() if by is None else by
