"""``airflow epochs check``."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from airflow_provider.cli.answer import answer, block, facts, text
from airflow_provider.cli.command import command
from airflow_provider.cli.declared_jobs import Awaited, Declared, Finding, examine
from airflow_provider.cli.restating import several
from airflow_provider.domain.errors import InvalidInput, TopologyError
from airflow_provider.domain.topology import Job
from airflow_provider.hooks.compat import dag_bag
from airflow_provider.hooks.schedules import refuse_schedule
from airflow_provider.sensors.epochs import EpochSensor


@dataclass(slots=True)
class _Parsed:
    """Declarations of the tasks of parsed DAG files."""

    jobs: list[Declared] = field(default_factory=list)
    awaited: list[Awaited] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


@command
def check(arguments: Namespace) -> None:
    """Check the jobs that DAG files declare, without a store.

    :raises InvalidInput: no such file or folder, or no task of this package in it.
    :raises TopologyError: there are findings; a script sees exit code 1.
    """
    path = _existing(arguments.path)
    parsed = _parsed(path)
    findings = [*parsed.findings, *examine(parsed.jobs, parsed.awaited)]
    if not parsed.jobs and not parsed.awaited and not findings:
        raise InvalidInput(
            field="path",
            value=arguments.path,
            expected="a DAG file, or a folder of them, with a task that computes epochs or waits for them",
            next_step="name the folder that Airflow parses; .airflowignore counts here, too.",
        )
    computed = [entry.job for entry in parsed.jobs if entry.is_computed]
    jobs = {(job.domain, job.name) for job in computed}
    tables = {(job.domain, table.name) for job in computed for table in job.outputs}
    told = {
        "path": str(path),
        "jobs": len(jobs),
        "tables": len(tables),
        "findings": [_facts(finding) for finding in findings],
    }
    summary = f"{several(len(jobs), 'job')}, {several(len(tables), 'table')}"
    answer(arguments, told, text(summary), *map(_block, findings))
    if findings:
        raise TopologyError(
            f"{several(len(findings), 'finding')} in {path}.",
            next_step="do what each finding says, then check again.",
        )


def _existing(path: str) -> Path:
    """:raises InvalidInput: there is no such file or folder."""
    try:
        place = Path(path)
        if path and place.exists():
            return place
    except (OSError, ValueError):  # a name that no file can have
        pass
    raise InvalidInput(field="path", value=path, expected="an existing DAG file, or a folder of them")


def _parsed(path: Path) -> _Parsed:
    """Parse the DAG files in *path* as Airflow's DAG processor does: with their folder on Python's path."""
    root, before = path if path.is_dir() else path.parent, list(sys.path)
    try:
        bag = dag_bag(path, bundle_path=root.resolve())
    finally:
        sys.path[:] = before
    found = _Parsed()
    found.findings += [_unparsed(file, error) for file, error in sorted(bag.import_errors.items())]
    for dag_id, dag in sorted(bag.dags.items()):
        for task in dag.tasks:
            _add(found, task, f"{dag_id}.{task.task_id} ({_shown(dag.fileloc, root)})")
    return found


def _unparsed(file: str, error: str) -> Finding:
    """Return the finding of a file that raised; *error* ends with the exception, whose class has its module."""
    said = [line.strip() for line in error.splitlines() if line.strip()]
    told, _, step = re.sub(r"^(\w+\.)+(?=\w+: )", "", said[-1] if said else "").partition(" Next step: ")
    missing = "correct it; where a module is missing, install it or add its folder to PYTHONPATH."
    return Finding(subject=f"file {file}", found=told or "it cannot be parsed", next_step=step or missing)


def _add(found: _Parsed, task: Any, place: str) -> None:
    """Add what *task* declares; a mapped task has its arguments apart."""
    given = getattr(task, "partial_kwargs", {})
    job = getattr(task, "job", given.get("job"))
    if isinstance(job, Job):
        is_computed = not isinstance(task, EpochSensor)
        found.jobs.append(Declared(job=job, place=place, is_computed=is_computed))
    if isinstance(task, EpochSensor):
        found.awaited += [Awaited(domain=task.domain, table=table, place=place) for table in task.tables]
    elif isinstance(job, Job) and not given:
        try:
            refuse_schedule(task, job, getattr(task, "batch", None), getattr(task, "interval", None))
        except InvalidInput as error:
            found.findings.append(
                Finding(
                    subject=f"job {job.name}",
                    found=error.message,
                    next_step=error.next_step,
                    places=(place,),
                )
            )


def _shown(file: str, root: Path) -> str:
    path = Path(file)
    return str(path.relative_to(root.resolve())) if path.is_relative_to(root.resolve()) else file


def _block(finding: Finding) -> RenderableType:
    told = {"found": finding.found, "next step": finding.next_step, "declared in": list(finding.places)}
    return block(finding.subject, facts(told))


def _facts(finding: Finding) -> dict[str, Any]:
    return {
        "subject": finding.subject,
        "found": finding.found,
        "next_step": finding.next_step,
        "declared_in": list(finding.places),
    }
