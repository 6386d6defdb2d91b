"""Airflow's runs compute the members of a restatement, DAG after DAG in the order of the cascade."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from graphlib import CycleError, TopologicalSorter
from shlex import quote

from airflow_provider.cli.airflow_dags import (
    Runs,
    ScheduledDag,
    active_backfill,
    runs_of,
    runs_of_backfill,
)
from airflow_provider.cli.restating import several
from airflow_provider.client.restatements import Restatement
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.members_now import MemberState, MemberStatus, job_of
from airflow_provider.domain.errors import InvalidInput, Unavailable
from airflow_provider.domain.identifiers import DomainName, JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import names_dag
from airflow_provider.domain.records import epoch_key
from airflow_provider.domain.restatement import JobEpochs

_POLL_S = 3.0
_TIMES = 3
"""Computations of an epoch whose inputs are computed again meanwhile."""
_LISTED = 5

Epoch = tuple[JobName, Interval]


@dataclass(frozen=True, slots=True)
class JobDag:
    """The DAG that computes a job: the one that has committed the last of its epochs that are members."""

    dag: ScheduledDag
    jobs: frozenset[JobName]


def dags_of(service: EpochService, domain: DomainName, members: Sequence[JobEpochs]) -> list[JobDag]:
    """Return the DAGs that compute *members*, in the order of the cascade.

    :raises InvalidInput: Airflow does not know one of them, it is paused, or has no run for one of the epochs.
    """
    found: dict[str, list[JobEpochs]] = {}
    for epochs in members:
        found.setdefault(_dag_of(service, domain, epochs), []).append(epochs)
    for owner, own in found.items():
        if not names_dag(owner):
            raise InvalidInput(
                f"no DAG has computed the epochs of {', '.join(epochs.job for epochs in own)}: "
                + (f"the program of {owner} has." if owner else "they name no owner."),
                next_step="open a restatement (`airflow epochs restate open`), and compute them by that program.",
                field="job",
                value=own[0].job,
                expected="a job whose epochs a DAG has computed",
            )
    dags = {dag_id: ScheduledDag.of(dag_id) for dag_id in found}
    for dag_id, dag in dags.items():
        for epochs in found[dag_id] if dag.is_periodic else ():
            dag.dates(job_of(service.store, domain, epochs.job).cadence, epochs.intervals)
    jobs = {dag_id: frozenset(epochs.job for epochs in own) for dag_id, own in found.items()}
    return [JobDag(dags[dag_id], jobs[dag_id]) for dag_id in _in_order(service, domain, jobs)]


def _dag_of(service: EpochService, domain: DomainName, epochs: JobEpochs) -> str:
    """Return the DAG that has committed the last of *epochs* that a DAG has; who committed the last if none has."""
    owners = []
    for interval in sorted(epochs.intervals, reverse=True):
        key = epoch_key(domain, epochs.job, interval.start)
        record = service.store.read(domain, [key]).of(key).record
        # A revert copies rows: the run that had computed those is that of the commit which it has replaced.
        owners += [commit.owner for commit in (record.committed, record.replaced) if commit is not None]
        if owners and (known := next((owner.dag_id for owner in owners if owner.names_dag), "")):
            return known
    return owners[0].dag_id if owners else ""


def _in_order(
    service: EpochService, domain: DomainName, jobs: dict[str, frozenset[JobName]]
) -> Iterable[str]:
    """Return the DAGs, each after those whose tables it reads.

    :raises InvalidInput: two of them read each other's tables.
    """
    records = {job: job_of(service.store, domain, job) for own in jobs.values() for job in own}
    owner = {
        table.name: dag_id for dag_id, own in jobs.items() for job in own for table in records[job].outputs
    }
    before = {
        dag_id: {owner[edge.table] for job in own for edge in records[job].edges if edge.table in owner}
        - {dag_id}
        for dag_id, own in sorted(jobs.items())
    }
    try:
        return list(TopologicalSorter(before).static_order())
    except CycleError as error:
        round_about = " and ".join(dict.fromkeys(error.args[1]))
        raise InvalidInput(
            f"DAGs {round_about} read each other's tables: a run of either waits for members that the other computes.",
            next_step="open a restatement (`airflow epochs restate open`), and start a backfill of each of them whose "
            "configuration names it.",
            field="dag",
            value=round_about,
            expected="DAGs of which each computes after those that it reads",
        ) from error


@dataclass(slots=True)
class Backfilling:
    """Work of Airflow on one restatement.

    :param dags: in the order of the cascade. :param max_active_runs: runs of one backfill at a time.
    """

    service: EpochService
    restatement: Restatement
    dags: Sequence[JobDag]
    max_active_runs: int
    _asked: Counter[Epoch] = field(default_factory=Counter)
    _cleared: dict[str, list[str]] = field(default_factory=dict)
    _backfills: dict[str, int] = field(default_factory=dict)
    _others: set[int] = field(default_factory=set)
    _told: str = ""

    def run(self) -> None:
        """Return once all members are staged.

        :raises Unavailable: runs have ended, and members are not staged. :raises InvalidInput: as :func:`dags_of`.
        """
        while left := self._left():
            self._tell(left)
            if not self._start_next(left):
                self._refuse_end(left)
            time.sleep(_POLL_S)
        progress("all epochs are staged")
        # A task of these runs that began after the publish would compute its epoch as any other run does.
        while going := [dag.dag.dag_id for dag in self.dags if not self._runs(dag.dag.dag_id).over]:
            told = f"waiting for the end of the runs of {', '.join(going)}; `airflow epochs restate publish` does not"
            if told != self._told:
                progress(told)
            self._told = told
            time.sleep(_POLL_S)

    def _left(self) -> list[MemberStatus]:
        members = self.restatement.status().members
        return [member for member in members if member.state is not MemberState.STAGED]

    def _start_next(self, left: Sequence[MemberStatus]) -> bool:
        """Start the first DAG that has members left and waits for no other; return False if nothing goes on."""
        for dag in self.dags:
            own = [member for member in left if member.job in dag.jobs]
            if not own:
                continue
            goes_on = self._goes_on(dag.dag)
            # A DAG after this one may read what it has not staged yet: its tasks would hold slots while they wait.
            return goes_on or self._start(dag, own)
        return any(member.state is MemberState.COMPUTING for member in left)

    def _goes_on(self, dag: ScheduledDag) -> bool:
        active = active_backfill(dag.dag_id)
        if active is None:
            return not self._runs(dag.dag_id).over
        number, restatement = active
        if restatement == self.restatement.name:
            self._backfills[dag.dag_id] = number
        elif number not in self._others:
            self._others.add(number)
            progress(f"{dag.dag_id}: backfill {number} of Airflow goes on; waiting for its end")
        return True  # Airflow takes one at a time, and notes the end of one half a minute late

    def _runs(self, dag_id: str) -> Runs:
        if dag_id in self._cleared:
            return runs_of(dag_id, self._cleared[dag_id])
        if dag_id in self._backfills:
            return runs_of_backfill(self._backfills[dag_id])
        return Runs(0, 0, ())

    def _start(self, dag: JobDag, left: Sequence[MemberStatus]) -> bool:
        """Start runs for the members of a DAG that no earlier run was started for; return False without any."""
        epochs = [(member.job, member.interval) for member in left if self._may_be_asked(member)]
        if not epochs:
            return any(member.state is MemberState.COMPUTING for member in left)
        if self._backfill(dag.dag, epochs) if dag.dag.is_periodic else self._clear(dag.dag, epochs):
            self._asked.update(epochs)
        return True

    def _may_be_asked(self, member: MemberStatus) -> bool:
        again = _TIMES if member.state is MemberState.OUTDATED else 1
        return member.state is not MemberState.COMPUTING and self._asked[member.job, member.interval] < again

    def _backfill(self, dag: ScheduledDag, epochs: Sequence[Epoch]) -> bool:
        """Let Airflow backfill the runs that compute *epochs*; return False if it has made a part of them only."""
        spans = []
        for job in {job for job, _ in epochs}:
            cadence = job_of(self.service.store, self.restatement.domain, job).cadence
            spans.append(dag.dates(cadence, [interval for name, interval in epochs if name == job]))
        dates = min(first for first, _ in spans), max(last for _, last in spans)
        number = dag.backfill(self.restatement.name, dates, max_active_runs=self.max_active_runs)
        if number is None:
            progress(f"{dag.dag_id}: Airflow's database was locked; trying again")
            return False
        self._backfills[dag.dag_id] = number
        span = f"{dates[0]:%Y-%m-%d %H:%M} to {dates[1]:%Y-%m-%d %H:%M} UTC"
        progress(f"{dag.dag_id}: backfill {number} of Airflow, with the runs of {span}")
        return True

    def _clear(self, dag: ScheduledDag, epochs: Sequence[Epoch]) -> bool:
        """Clear the runs that have committed *epochs*: Airflow backfills no DAG without a calendar. Return True.

        :raises Unavailable: it no longer has the runs.
        """
        ids = sorted({self._run_of(dag.dag_id, epoch) for epoch in epochs})
        known = runs_of(dag.dag_id, ids).number
        if known < len(ids):
            raise Unavailable(
                f"DAG {dag.dag_id!r} has no calendar, so that Airflow backfills nothing of it, and of the "
                f"{several(len(ids), 'run')} that computed the epochs Airflow has {known}.",
                next_step=f"run it by hand for each epoch, with the configuration "
                f'{{"restatement": "{self.restatement.name}"}}, and repeat this command: it goes on.',
            )
        dag.clear(ids, self.restatement.name)
        self._cleared[dag.dag_id] = ids
        progress(f"{dag.dag_id}: {several(len(ids), 'run')} cleared, since its schedule is no calendar")
        return True

    def _run_of(self, dag_id: str, epoch: Epoch) -> str:
        """Return the run of the DAG that has committed *epoch*, or what a revert has copied; empty if none has."""
        domain = self.restatement.domain
        key = epoch_key(domain, epoch[0], epoch[1].start)
        record = self.service.store.read(domain, [key]).of(key).record
        commits = (commit for commit in (record.committed, record.replaced) if commit is not None)
        return next((commit.owner.run_id for commit in commits if commit.owner.dag_id == dag_id), "")

    def _tell(self, left: Sequence[MemberStatus]) -> None:
        size = self.restatement.record.size
        computing = sorted({member.job for member in left if member.state is MemberState.COMPUTING})
        told = f"{size - len(left)} of {several(size, 'epoch')} staged"
        told += f"; being computed: {', '.join(computing)}" if computing else ""
        failed = [run for dag in self.dags for run in self._runs(dag.dag.dag_id).failed]
        told += f"; failed: {', '.join(failed[:_LISTED])}" if failed else ""
        if told != self._told:
            progress(told)
        self._told = told

    def _refuse_end(self, left: Sequence[MemberStatus]) -> None:
        """:raises Unavailable: no run goes on."""
        failed = [f"{dag.dag.dag_id} {run}" for dag in self.dags for run in self._runs(dag.dag.dag_id).failed]
        first = left[0]
        raise Unavailable(
            f"the runs have ended, and {several(len(left), 'epoch')} of restatement {self.restatement.name!r} "
            f"{'is' if len(left) == 1 else 'are'} not staged; the first is {first.job} {first.interval}"
            + (f": {first.why}" if first.why else "")
            + (f". Failed runs: {', '.join(failed[:_LISTED])}" if failed else "")
            + ".",
            next_step="look at the logs of its task, repair it, and repeat this command with "
            f"--name {quote(self.restatement.name)}: it goes on. `airflow epochs restate status "
            f"{quote(self.restatement.name)}` lists all.",
        )


def progress(told: str) -> None:
    """Print how far the work is, for people: to standard error, so that the answer can be read by a program."""
    sys.stderr.write(f"{datetime.now(UTC):%H:%M:%S}  {told}\n")
    sys.stderr.flush()


def refuse_unheard() -> None:
    """:raises InvalidInput: standard input is no terminal, so that no question can be asked."""
    if not sys.stdin.isatty():
        raise InvalidInput(
            "no question can be asked: standard input is no terminal.",
            next_step="type the command on a terminal, or give --yes.",
            field="--yes",
            value=None,
            expected="--yes where standard input is no terminal",
        )


def confirm(question: str, *, declined: str) -> None:
    """Ask a person on the terminal. :param declined: what is printed if the answer is no.

    :raises SystemExit: the answer is no.
    """
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        sys.stderr.write(f"{declined}\n")
        raise SystemExit(1)
