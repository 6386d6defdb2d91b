"""``airflow epochs restate …``."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from rich.console import RenderableType

from airflow_provider.cli.answer import answer, block, facts, show, table, text
from airflow_provider.cli.command import command, hook_of
from airflow_provider.cli.holding import decision_facts, decision_lines, held_facts, held_lines
from airflow_provider.cli.restating import (
    approval,
    closing,
    counts_of,
    deadline,
    lifetime,
    member_facts,
    members_table,
    next_command,
    next_step,
    obstacles_of,
    plan_summary,
    progress_table,
    record_facts,
    several,
    size,
    spans,
    unstaged,
)
from airflow_provider.cli.staged_rows import difference_block, difference_facts, row_number
from airflow_provider.client.epochs import Epochs
from airflow_provider.client.restatements import Restatement
from airflow_provider.coordination.commits.staged import revert_of
from airflow_provider.coordination.restating.next_steps import compute, why_over
from airflow_provider.coordination.restating.restatements import RestatementStatus
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.errors import TopologyError
from airflow_provider.domain.identifiers import domain_name
from airflow_provider.domain.restatement import RestatementRecord, RestatementState, is_over, state_of
from airflow_provider.hooks.asset_events import announce_restatement


@command
def plan(arguments: Namespace) -> None:
    """Show what a restatement would compute again.

    :raises TopologyError: obstacles keep it from being opened; a script sees exit code 1.
    """
    with _service(arguments) as service:
        planned = Epochs(service, arguments.domain).plan_restatement(arguments.names, arguments.interval)
    step = ""
    if not planned.obstacles:
        words = [*arguments.names, "--interval", arguments.interval]
        step = next_command(arguments, "open", *words, more="--reason …")
    told = {
        "domain": arguments.domain,
        "asked": spans(planned.asked),
        "members": spans(planned.members),
        "epochs": planned.size,
        "jobs": len(planned.members),
        "uncommitted": planned.uncommitted,
        "held": held_facts(planned.held),
        "expected_seconds": round(planned.expected.total_seconds()),
        "obstacles": obstacles_of(arguments, planned),
        "next_step": step,
    }
    summary = plan_summary(arguments, planned, step, held_lines(planned.held))
    answer(arguments, told, summary, members_table(planned.members))
    if planned.obstacles:
        raise TopologyError(
            f"{several(len(planned.obstacles), 'obstacle')} in the way of this restatement.",
            next_step="do what each obstacle says, then plan again.",
        )


@command
def open_restatement(arguments: Namespace) -> None:
    """Open a restatement."""
    with _service(arguments) as service:
        opened = Epochs(service, arguments.domain).restate(
            arguments.names,
            arguments.interval,
            reason=arguments.reason,
            name=arguments.name,
            needs_approval=arguments.needs_approval,
            lifetime=lifetime(arguments),
        )
        record = opened.record
    look = next_command(arguments, "status", opened.name)
    step = f"{compute(opened.name)}; `{look}` shows how far it is."
    told = {
        "domain": opened.domain,
        "restatement": opened.name,
        **record_facts(record),
        "members": spans(record.members),
        "next_step": step,
    }
    seen = {
        "domain": opened.domain,
        "restatement": opened.name,
        "reason": record.reason,
        "by": record.by,
        "members": size(record.members),
        "deadline": deadline(record),
        "approval": approval(record),
        "next step": step,
    }
    answer(arguments, told, facts(seen), members_table(record.members))


@command
def restatements(arguments: Namespace) -> None:
    """List the restatements of a domain."""
    with _service(arguments) as service:
        found = service.restatements.all(arguments.domain)
        reading = service.store.read(domain_name(arguments.domain), [])
    told: list[dict[str, Any]] = []
    for name, stamped in found:
        over = is_over(stamped.record, incarnation=reading.head.incarnation, now=reading.now)
        csn = stamped.csn if stamped.record.state is RestatementState.PUBLISHED else None
        state = state_of(stamped.record, is_over=over)
        told.append({"restatement": name, "state": state, "csn": csn, **record_facts(stamped.record)})
    reverts = {summary["reverts"]: f"{summary['restatement']} ({summary['state']})" for summary in told}
    for summary in told:
        summary["reverted_by"] = reverts.get(summary["restatement"])
    blocks = [_block(summary, stamped.record) for summary, (_, stamped) in zip(told, found, strict=True)]
    answer(arguments, told, *blocks if blocks else [text("no restatements")])


@command
def status(arguments: Namespace) -> None:
    """Show how far a restatement is."""
    with _service(arguments) as service:
        found = _restatement(service, arguments).status()
        over = why_over(service.store, arguments.domain, found)
        reverted = _reverted_by(service, arguments.domain, found)
    record, state = found.record, state_of(found.record, is_over=bool(over))
    counts, step = counts_of(found), next_step(arguments, found, is_over=bool(over))
    told = {
        "domain": arguments.domain,
        "restatement": found.name,
        "state": state,
        "csn": found.csn,
        **record_facts(record),
        "reverted_by": reverted,
        "output": found.output,
        "next_step": step,
        "held": held_facts(found.held),
        "decisions": decision_facts(record),
        "progress": counts,
        "members": [member_facts(member) for member in found.members],
    }
    seen = {
        "domain": arguments.domain,
        "restatement": found.name,
        "state": state,
        "CSN": found.csn,
        "takes back": record.reverts,
        "taken back by": reverted,
        "because": over or record.ended,
        "reason": record.reason,
        "by": record.by,
        "members": size(record.members),
        "held": held_lines(found.held),
        "decided": decision_lines(record),
        "deadline": deadline(record),
        "closing": closing(record),
        "output": found.output,
        "approval": approval(record, found.output),
        "next step": step.split("\n") if step else None,
    }
    answer(arguments, told, facts(seen), progress_table(counts), *unstaged(found.members))


@command
def diff(arguments: Namespace) -> None:
    """Show the rows that a restatement adds and removes."""
    number = row_number(arguments.rows)
    with _service(arguments) as service:
        restatement = _restatement(service, arguments)
        # Read before the rows: if a member is computed again meanwhile, an approval of this digest is refused.
        output = restatement.status().output
        found = restatement.diff(arguments.table)
    tables = [difference_facts(difference, number) for difference in found.values()]
    known = {"domain": arguments.domain, "restatement": arguments.name, "output": output}
    numbers = [[each["table"], each["added"], each["removed"]] for each in tables]
    samples = [
        difference_block(each, number) for each in tables if each["rows_added"] or each["rows_removed"]
    ]
    columns = ["table", "rows added", "rows removed"]
    answer(arguments, known | {"tables": tables}, facts(known), table(columns, numbers), *samples)


@command
def approve(arguments: Namespace) -> None:
    """Approve the output of a restatement."""
    with _service(arguments) as service:
        found = _restatement(service, arguments)
        found.approve(arguments.digest)
    told = {
        "approved": found.name,
        "output": arguments.digest,
        "next step": next_command(arguments, "publish", found.name),
    }
    show(facts(told))


@command
def publish(arguments: Namespace) -> None:
    """Publish all epochs of a restatement in one commit."""
    with _service(arguments) as service:
        found = _restatement(service, arguments)
        csn = found.publish()
        events = _events(service, arguments, found, csn)
        members = found.record.members
    told = {
        "domain": found.domain,
        "published": found.name,
        "csn": csn,
        "epochs": sum(len(epochs.intervals) for epochs in members),
        "jobs": len(members),
        "events": events,
    }
    seen = {
        "domain": found.domain,
        "published": found.name,
        "CSN": csn,
        "members": size(members),
        "asset events": _told(arguments, events),
    }
    answer(arguments, told, facts(seen))


@command
def abandon(arguments: Namespace) -> None:
    """End a restatement without a commit."""
    with _service(arguments) as service:
        found = _restatement(service, arguments)
        found.abandon(arguments.reason)
    show(facts({"abandoned": found.name}))


@command
def revert(arguments: Namespace) -> None:
    """Take a published restatement back."""
    with _service(arguments) as service:
        found = _restatement(service, arguments)
        known = revert_of(service.restatements.reader, found.domain, found.name)
        before = known is not None and known[1].state is RestatementState.PUBLISHED
        csn = found.revert(arguments.reason, with_readers=arguments.with_readers)
        events = _events(service, arguments, found, csn)
    told = {"restatement": arguments.name, "csn": csn, "events": events}
    title = "taken back before" if before else "taken back"
    seen = {title: arguments.name, "CSN": csn, "asset events": _told(arguments, events)}
    answer(arguments, told, facts(seen))


def _block(told: dict[str, Any], record: RestatementRecord) -> RenderableType:
    """Lay out a block for a restatement, not a row: its name and reason may each be as wide as the terminal."""
    seen = {
        "state": told["state"],
        "CSN": told["csn"],
        "takes back": record.reverts,
        "taken back by": told["reverted_by"],
        "because": record.ended,
        "reason": record.reason,
        "by": record.by,
        "members": size(record.members),
        "decided": decision_lines(record),
        "deadline": deadline(record),
        "closing": closing(record),
        "approval": approval(record),
    }
    return block(str(told["restatement"]), facts(seen))


def _reverted_by(service: EpochService, domain: str, found: RestatementStatus) -> str | None:
    """Return the restatement that takes *found* back, with its state; None without one."""
    known = revert_of(service.restatements.reader, domain_name(domain), found.name)
    return None if known is None else f"{known[0]} ({known[1].state})"


def _service(arguments: Namespace) -> EpochService:
    return hook_of(arguments).get_conn(create=False)


def _events(service: EpochService, arguments: Namespace, found: Restatement, csn: int) -> int | None:
    """Send the asset events of a commit; return their number, None if none could be, or was to be sent."""
    if arguments.no_events:
        return None
    return announce_restatement(service, found.domain, found.name, csn, conn_id=arguments.conn_id)


def _told(arguments: Namespace, events: int | None) -> str:
    if events is not None:
        return str(events)
    return "" if arguments.no_events else "none: Airflow has no database here"


def _restatement(service: EpochService, arguments: Namespace) -> Restatement:
    """:raises UnknownName: no such restatement in the domain."""
    return Epochs(service, arguments.domain).restatement(arguments.name)
