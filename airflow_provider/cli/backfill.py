"""``airflow epochs backfill``: restate a past interval through all DAGs of the cascade."""

from __future__ import annotations

import sys
from argparse import Namespace
from datetime import timedelta
from shlex import quote

from airflow_provider.cli.answer import answer, facts, show
from airflow_provider.cli.backfilling import Backfilling, JobDag, confirm, dags_of, progress, refuse_unheard
from airflow_provider.cli.command import command, hook_of
from airflow_provider.cli.holding import held_lines
from airflow_provider.cli.restating import (
    backfill_command,
    lifetime,
    members_table,
    next_command,
    next_step,
    plan_summary,
    several,
    size,
)
from airflow_provider.client.epochs import Epochs
from airflow_provider.client.restatements import Restatement
from airflow_provider.coordination.restating.look import MOST_COMPARED, rows_to_compare
from airflow_provider.coordination.restating.restatements import RestatementStatus
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.members_now import job_of
from airflow_provider.domain.errors import Conflict, InvalidInput, NotReady, TopologyError
from airflow_provider.domain.identifiers import domain_name, restatement_id
from airflow_provider.domain.restatement import RestatementRecord, RestatementState
from airflow_provider.hooks.asset_events import announce_restatement

_PUBLISHES = 20
"""Publishes that epochs which join at the last moment may refuse before the command gives up."""
_MOST_RUNS = 1_000


@command
def backfill(arguments: Namespace) -> None:
    """Open a restatement, or go on with it; let Airflow compute its epochs, and publish them.

    :raises TopologyError: obstacles keep it from being opened. Others are those of the ``restate`` commands, and of
        :mod:`airflow_provider.cli.backfilling`.
    """
    runs, until = _number(arguments.max_active_runs), lifetime(arguments)
    if not arguments.yes:
        refuse_unheard()
    with hook_of(arguments).get_conn(create=False) as service:
        epochs = Epochs(service, arguments.domain)
        restatement = _known(service, epochs, arguments) or _opened(service, epochs, arguments, until)
        try:
            _work(service, restatement, runs, arguments)
        except KeyboardInterrupt:
            again = _again(restatement, arguments)
            sys.stderr.write(
                f"\nInterrupted; Airflow's runs go on. This command goes on with them: {again}\n"
            )
            raise SystemExit(130) from None


def _work(service: EpochService, restatement: Restatement, runs: int, arguments: Namespace) -> None:
    for _ in range(_PUBLISHES):
        dags = dags_of(service, restatement.domain, restatement.record.members)
        Backfilling(service, restatement, dags, runs).run()
        found = restatement.status()
        _refuse_held(found, arguments)
        if found.record.needs_approval and found.record.approved != found.output:
            _tell_approval(restatement, found, arguments)
            return
        _tell_differences(service, restatement, arguments)
        if not arguments.yes:
            publish = next_command(arguments, "publish", restatement.name)
            stays = (
                f"restatement {restatement.name} stays open and staged: `{publish}`, or `abandon`, ends it"
            )
            confirm(f"Publish restatement {restatement.name}?", declined=stays)
        try:
            csn = restatement.publish()
        except (NotReady, Conflict) as error:
            progress(error.message)  # Airflow computes the epochs that have joined, or were computed again
            continue
        if not arguments.no_events:
            sent = announce_restatement(
                service, restatement.domain, restatement.name, csn, conn_id=arguments.conn_id
            )
            progress(f"{several(sent or 0, 'asset event')} sent")
        _tell_published(restatement, dags, csn, arguments)
        return
    raise NotReady(
        f"restatement {restatement.name!r}: epochs joined it before each of {_PUBLISHES} publishes.",
        next_step="pause the DAGs that read its tables, and repeat this command.",
        missing=(),
    )


def _refuse_held(found: RestatementStatus, arguments: Namespace) -> None:
    """:raises NotReady: epochs that have read by ``hold`` edges what it replaces keep it from being published."""
    if not found.held:
        return
    raise NotReady(
        f"restatement {found.name!r} is held: {'; '.join(held_lines(found.held))}.",
        next_step=f"`{'` or `'.join(_steps(found, arguments))}`. Then repeat this command with --name {found.name}: it "
        "goes on.",
        missing=(),
    )


def _steps(found: RestatementStatus, arguments: Namespace) -> list[str]:
    return next_step(arguments, found, is_over=False).split("\n")


def _known(service: EpochService, epochs: Epochs, arguments: Namespace) -> Restatement | None:
    """Return the open restatement of ``--name``; None if there is none of that name.

    :raises InvalidInput: it is published or abandoned, or of other epochs than are asked for, or it is published
        without the approval that is asked for.
    """
    if not arguments.name:
        return None
    name = restatement_id(arguments.name)
    found = dict(service.restatements.all(arguments.domain))
    if name not in found:
        return None
    state = found[name].record.state
    if state is not RestatementState.OPEN:
        raise InvalidInput(
            field="--name",
            value=name,
            expected=f"a new name, or that of an open restatement; this one is {state}",
        )
    left = _not_members(epochs, found[name].record, arguments)
    progress(f"restatement {name} is open: going on with it")
    if left:
        progress(f"no members of it, and left as they are: {', '.join(left)}")
    return Restatement(service, domain_name(arguments.domain), name)


def _not_members(epochs: Epochs, record: RestatementRecord, arguments: Namespace) -> list[str]:
    """Return the committed epochs that are asked for and that the restatement of ``--name`` does not compute.

    They may have been committed since it was opened.

    :raises InvalidInput: it computes none of a job that is asked for, or needs no approval, which is asked for.
    """
    if arguments.needs_approval and not record.needs_approval:
        raise InvalidInput(
            field="--needs-approval",
            value=True,
            expected=f"no such option: restatement {arguments.name!r} was opened without it",
            next_step="abandon it and open another one, or go on without the option.",
        )
    members, left = set(record.epochs), list[str]()
    for own in epochs.plan_restatement(arguments.names, arguments.interval).asked:
        others = [interval for interval in own.intervals if (own.job, interval) not in members]
        if len(others) == len(own.intervals):
            raise InvalidInput(
                field="--name",
                value=arguments.name,
                expected=f"a new name, or that of an open restatement of {own.job} {others[0]}; this one computes "
                f"none of the epochs of {own.job} that are asked for",
                next_step="choose another name, or leave it out; `airflow epochs restate status "
                f"{quote(arguments.name)}` shows what this one computes.",
            )
        left += [f"{own.job} {interval}" for interval in others]
    return left


def _opened(
    service: EpochService, epochs: Epochs, arguments: Namespace, until: timedelta | None
) -> Restatement:
    planned = epochs.plan_restatement(arguments.names, arguments.interval)
    if planned.obstacles:
        raise TopologyError(
            f"{several(len(planned.obstacles), 'obstacle')} in the way: {planned.obstacles[0].rstrip('.')}.",
            next_step="`airflow epochs restate plan` lists all; do what each says.",
        )
    dags = dags_of(service, domain_name(arguments.domain), planned.members)
    if not arguments.yes:
        names = ", ".join(dag.dag.dag_id for dag in dags)
        show(
            plan_summary(arguments, planned, "", held_lines(planned.held)),
            members_table(planned.members),
            facts({"DAGs": names}),
        )
        question = f"Open the restatement, and let {several(len(dags), 'DAG')} compute its epochs again?"
        confirm(question, declined="nothing was changed")
    opened = epochs.restate(
        arguments.names,
        arguments.interval,
        reason=arguments.reason,
        name=arguments.name,
        needs_approval=arguments.needs_approval,
        lifetime=until,
    )
    progress(f"restatement {opened.name} is open: {size(opened.record.members)}")
    return opened


def _tell_differences(service: EpochService, restatement: Restatement, arguments: Namespace) -> None:
    """Tell how many rows of each table change, or that none does; of a large one, the command that compares them."""
    is_same = True
    for epochs in restatement.record.members:
        for table in job_of(service.store, restatement.domain, epochs.job).outputs:
            committed = rows_to_compare(service.store, restatement.domain, table, epochs.intervals)
            if committed > MOST_COMPARED:
                is_same = False
                compare = next_command(arguments, "diff", restatement.name, "--table", table.name)
                progress(
                    f"{table.name}: {committed} rows are committed in its time; `{compare}` compares them"
                )
                continue
            rows = restatement.diff(table)[table.name]
            if rows.added.num_rows or rows.removed.num_rows:
                is_same = False
                progress(f"{table.name}: {rows.removed.num_rows} rows removed, {rows.added.num_rows} added")
    if is_same:
        progress("no rows change")


def _tell_approval(restatement: Restatement, found: RestatementStatus, arguments: Namespace) -> None:
    told = {
        "domain": restatement.domain,
        "restatement": restatement.name,
        "state": "staged",
        "output": found.output,
    }
    steps = _steps(found, arguments)
    answer(arguments, told | {"next_step": steps}, facts(told | {"next step": steps}))


def _tell_published(restatement: Restatement, dags: list[JobDag], csn: int, arguments: Namespace) -> None:
    members = restatement.record.members
    known = {"domain": restatement.domain, "published": restatement.name}
    names = [dag.dag.dag_id for dag in dags]
    told = {"csn": csn, "epochs": restatement.record.size, "jobs": len(members), "dags": names}
    back = next_command(arguments, "revert", restatement.name, more="--reason …")
    seen = {"CSN": csn, "members": size(members), "DAGs": ", ".join(names), "to take it back": back}
    answer(arguments, known | told, facts(known | seen))


def _again(restatement: Restatement, arguments: Namespace) -> str:
    words = [*arguments.names, "--interval", arguments.interval, "--name", restatement.name]
    return backfill_command(arguments, *words, more="--reason …")


def _number(text: str) -> int:
    """:raises InvalidInput: ``--max-active-runs`` is not a number from 1 to 1,000."""
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_RUNS:
        raise InvalidInput(field="--max-active-runs", value=text, expected=f"a number from 1 to {_MOST_RUNS}")
    return int(text)
