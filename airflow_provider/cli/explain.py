"""``airflow epochs explain``."""

from __future__ import annotations

from argparse import Namespace
from contextlib import suppress

from airflow_provider.cli.command import (
    answer_facts,
    answer_json,
    answer_table,
    command,
    hook_of,
    known_sources,
)
from airflow_provider.coordination.explain import Explanation, explain
from airflow_provider.domain.epoch import BarrierRecord, Owner
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import domain_name, job_name
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import job_key
from airflow_provider.domain.registration import JobRecord
from airflow_provider.domain.schedule import run_interval
from airflow_provider.hooks.task_run import told_end
from airflow_provider.sources.roots import RootSources
from airflow_provider.stores.base import MetadataReader


@command
def explain_epoch(arguments: Namespace) -> None:
    """Say why one epoch is waiting, for whom, and what to do."""
    hook = hook_of(arguments)
    with hook.get_reader() as reader:
        interval = _interval(reader, arguments.domain, arguments.job, arguments.interval)
        sources = RootSources(known_sources(hook, reader, arguments.domain))
        found = explain(reader, arguments.domain, arguments.job, interval, sources=sources)
    ended = [told_end(owner, state) for owner in found.holders if (state := _ended_as(owner))]
    if arguments.output == "json":
        answer_json(_plain(found) | {"ended_runs": ended})
        return
    state = found.state.value or "nothing"
    answer_facts(
        {
            "epoch": f"{found.domain}/{found.job} {found.interval}",
            "state": state if found.revision is None else f"{state}, revision {found.revision}",
            "CSN": found.csn,
            "because": found.summary,
            "withdrawn": ", ".join(found.withdrawn),
            "retired": found.retired,
            "waits for": "; ".join(found.waiting_for),
            "writers": "\n".join(map(str, found.brought_by)),
            "Airflow": "\n".join(ended),
            "lapsed": found.lapsed
            and f"since {found.lapsed.isoformat()}: nobody waits for this job until it commits",
            "kept in": "\n".join(found.places),
            "outdated": "\n".join(found.outdated),
            "next step": found.next_step,
        }
    )
    if found.findings:
        answer_table(
            ["check", "found", "such as"],
            [(one.check, one.figure, "\n".join(one.sample)) for one in found.findings],
            title="checks that refused it",
        )
    if found.log:
        answer_table(
            ["time", "state", "table", "writer", "by", "note"],
            [
                (
                    one.at.isoformat(timespec="milliseconds"),
                    one.record.state.value,
                    one.record.sink or "(all)",
                    _writer(one.record),
                    one.record.owner,
                    one.record.note,
                )
                for one in found.log
            ],
            title="barrier log",
        )


def _ended_as(owner: Owner) -> str:
    """State in which a run has ended, by Airflow's database; empty while it runs or when the database does not say."""
    if not owner.names_dag:
        return ""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with suppress(Exception), create_session() as session:  # a hint, which no answer of the store depends on
        named = session.query(DagRun.state).filter_by(dag_id=owner.dag_id, run_id=owner.run_id)
        state = str(named.scalar())
        return state if state in ("success", "failed") else ""
    return ""


def _writer(record: BarrierRecord) -> str:
    """The attempt's token, and of several participants which, and its try."""
    part = f" participant {record.participant} try {record.subtoken}" if record.subtoken else ""
    return f"token {record.token}{part}"


def _interval(reader: MetadataReader, domain: str, job: str, text: str | None) -> Interval | None:
    """The epoch that *text* names on the job's own calendar; None leaves the choice to :func:`explain`."""
    key = job_key(domain_name(domain), job_name(job))
    stamped = reader.read(key.domain, [key]).get(key)
    if not text or stamped is None:
        return None
    record: JobRecord = stamped.record
    cadence = record.cadence
    epochs = cadence.split(run_interval(cadence, explicit=text))
    if len(epochs) > 1:
        raise InvalidInput(
            field="interval",
            value=text,
            expected=f"one epoch of job {job!r} ({cadence}), not {len(epochs)}",
            next_step=f"name one of them, such as {epochs[0].start.isoformat()}.",
        )
    return epochs[0]


def _plain(found: Explanation) -> dict[str, object]:
    return {
        "domain": found.domain,
        "job": found.job,
        "start": found.interval.start.isoformat(),
        "end": found.interval.end.isoformat(),
        "state": found.state.value,
        "revision": found.revision,
        "csn": found.csn,
        "summary": found.summary,
        "waiting_for": list(found.waiting_for),
        "brought_by": [str(bringer) for bringer in found.brought_by],
        "next_step": found.next_step,
        "findings": [
            {"check": one.check, "table": one.table, "figure": one.figure, "sample": list(one.sample)}
            for one in found.findings
        ],
        "places": list(found.places),
        "withdrawn": list(found.withdrawn),
        "retired": found.retired,
        "outdated": list(found.outdated),
        "lapsed": None if found.lapsed is None else found.lapsed.isoformat(),
        "log": [
            {
                "at": one.at.isoformat(),
                "state": one.record.state.value,
                "sink": one.record.sink,
                "token": one.record.token,
                "owner": str(one.record.owner),
                "note": one.record.note,
            }
            for one in found.log
        ],
    }
