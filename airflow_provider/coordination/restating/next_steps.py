"""Words in which commands and the page say how a restatement stands and how it goes on."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from dataclasses import dataclass

from airflow_provider.coordination.restating.restatements import RestatementStatus
from airflow_provider.coordination.upkeep.members_now import MemberState
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import domain_name
from airflow_provider.domain.restatement import RestatementState, refuse_closed
from airflow_provider.stores.base import MetadataReader


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands to type next. :param conn_id: of the domain's connection; empty for the default one."""

    domain: str
    conn_id: str | None = None

    def __call__(self, name: str, *words: str, more: str = "") -> str:
        """Return ``airflow epochs restate NAME WORDS …``, with the options that find the domain."""
        return self.of("restate", name, *words, more=more)

    def of(self, *words: str, more: str = "") -> str:
        """Return ``airflow epochs WORDS …``, with these options."""
        options = [] if self.domain == "default" else ["--domain", self.domain]
        options += ["--conn-id", self.conn_id] if self.conn_id else []
        told = shlex.join(["airflow", "epochs", *words, *options])
        return f"{told} {more}" if more else told


def compute(name: str) -> str:
    """Return the step by which the epochs of the restatement *name* are computed."""
    conf = json.dumps({"restatement": name}, ensure_ascii=False)
    return f"compute its epochs: by runs with the configuration {conf}, or by epoch_runs(…, restatement={name!r})"


def why_over(reader: MetadataReader, domain: str, found: RestatementStatus) -> str:
    """Return why an open restatement can no longer be published; empty if it can, or has ended."""
    if found.record.state is not RestatementState.OPEN:
        return ""
    reading = reader.read(domain_name(domain), [])
    try:
        refuse_closed(found.name, found.record, incarnation=reading.head.incarnation, now=reading.now)
    except InvalidInput as error:
        return error.message
    return ""


def next_step(commands: Commands, found: RestatementStatus, *, is_over: bool) -> str:
    """Return the command or the work by which an open restatement goes on; empty once it has ended."""
    record, name = found.record, found.name
    if record.state is not RestatementState.OPEN:
        return ""
    if is_over:
        return commands("abandon", name, more="--reason …")
    if found.held:
        jobs = dict.fromkeys(epochs.job for epochs in found.held)
        joining = commands("join", name, *jobs)
        return f"{joining}\n{commands('release', name, *jobs, more='--reason …')}"
    states = Counter(member.state for member in found.members)
    if record.is_group:
        is_whole = set(states) <= {MemberState.STAGED}
        return commands("publish", name) if is_whole else "run the tasks of the jobs that are not staged."
    if states[MemberState.WAITING] or states[MemberState.OUTDATED]:
        return f"{compute(name)}."
    if states[MemberState.COMPUTING]:
        return "wait: runs compute the epochs that are not staged."
    approved = record.approved == found.output
    look, publish = commands("diff", name), commands("publish", name)
    if record.needs_approval and not approved:
        return f"{look}\n{commands('approve', name, '--digest', found.output)}"
    return publish if approved else f"{look}\n{publish}"
