"""Jobs that tasks declare, and what registration would refuse of them together (R6). Pure functions of declarations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

from airflow_provider.domain.declaration import JobDeclaration
from airflow_provider.domain.errors import EpochError, TopologyError
from airflow_provider.domain.group import check_groups
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.registration import JobRecord, check_registration, declared, refuse_cycle
from airflow_provider.domain.topology import Job, Table
from airflow_provider.stores.declarations import fingerprint


@dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """A job of a task. :param place: DAG, task and file. :param is_computed: False if the task only waits for it."""

    job: Job
    place: str
    is_computed: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Awaited:
    """A table that a task waits for. :param place: DAG, task and file."""

    domain: DomainName
    table: TableName
    place: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A defect of the declarations. :param subject: the job, the table or the file. :param places: where it is."""

    subject: str
    found: str
    next_step: str
    places: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Domain:
    """The jobs of one domain, each by its first declaration, with all places of each."""

    jobs: Mapping[JobName, JobRecord]
    declarations: Mapping[JobName, Job]
    places: Mapping[JobName, tuple[str, ...]]

    def finding(self, subject: JobName, error: EpochError, *others: JobName) -> Finding:
        places = (place for name in (subject, *others) for place in self.places.get(name, ()))
        return Finding(
            subject=f"job {subject}",
            found=error.message,
            next_step=error.next_step,
            places=tuple(dict.fromkeys(places)),
        )


def examine(jobs: Iterable[Declared], awaited: Iterable[Awaited] = ()) -> list[Finding]:
    """Return what is wrong with *jobs* together, as far as declarations tell: each finding once, with all places."""
    by_domain: dict[DomainName, list[Declared]] = {}
    for entry in jobs:
        by_domain.setdefault(entry.job.domain, []).append(entry)
    waits: dict[DomainName, list[Awaited]] = {}
    for wait in awaited:
        waits.setdefault(wait.domain, []).append(wait)
    found: list[Finding] = []
    for name in sorted({*by_domain, *waits}):
        entries = by_domain.get(name, [])
        domain, unlike = _domain(entries)
        found += unlike
        found += _pairs(domain)
        found += _cycles(domain)
        found += _groups(domain)
        found += _tables_without_writer(domain, waits.get(name, []))
        found += _unlike_tables(domain)
    return list({(finding.subject, finding.found): finding for finding in reversed(found)}.values())[::-1]


def _domain(entries: Sequence[Declared]) -> tuple[_Domain, list[Finding]]:
    """Return the jobs of one domain, and those that are declared in several ways."""
    first: dict[JobName, Declared] = {}
    places: dict[JobName, list[str]] = {}
    found: list[Finding] = []
    for entry in entries:
        job = entry.job
        known = first.setdefault(job.name, entry)
        places.setdefault(job.name, []).append(entry.place)
        differing = _differing(known.job, job)
        if differing:
            found.append(
                Finding(
                    subject=f"job {job.name}",
                    found=f"it is declared in two ways, which differ in {', '.join(differing)}",
                    next_step="declare the job once, in a module that all its DAGs import; or give the other one "
                    "another name.",
                    places=(known.place, entry.place),
                )
            )
    computed = {entry.job.name for entry in entries if entry.is_computed}
    declarations = {name: entry.job for name, entry in first.items() if name in computed}
    return (
        _Domain(
            jobs={name: declared(job, None, fingerprint(job)) for name, job in declarations.items()},
            declarations=declarations,
            places={name: tuple(dict.fromkeys(known)) for name, known in places.items()},
        ),
        found,
    )


def _differing(one: Job, other: Job) -> list[str]:
    """Return the fields in which two declarations differ; the order of their parts does not matter."""
    if one is other or fingerprint(one) == fingerprint(other):
        return []
    before, after = JobDeclaration.of(one), JobDeclaration.of(other)
    names = [part.name for part in fields(JobDeclaration)]
    return [name for name in names if getattr(before, name) != getattr(after, name)]


def _pairs(domain: _Domain) -> Iterator[Finding]:
    """Yield what each job contradicts by itself, or together with a job that shares a table or a source with it."""
    users: dict[str, dict[JobName, None]] = {}
    for job in domain.jobs.values():
        for name in _shared(job):
            users.setdefault(name, {})[job.name] = None
    for job in domain.jobs.values():
        related = {name for shared in _shared(job) for name in users[shared]}
        for other in (None, *sorted(related - {job.name})):
            if other is not None and other < job.name:
                continue  # each pair once
            others = {} if other is None else {other: domain.jobs[other]}
            try:
                check_registration(job, others, None)
            except TopologyError as error:
                yield domain.finding(job.name, error, *others)


def _shared(job: JobRecord) -> list[str]:
    tables = [*(table.name for table in job.outputs), *(edge.table for edge in job.edges)]
    return [*(f"table {table}" for table in tables), *(f"source {source.name}" for source in job.sources)]


def _cycles(domain: _Domain) -> Iterator[Finding]:
    """Yield a finding for each cycle; the jobs of one are left out before the next is looked for."""
    left = dict(domain.jobs)
    while True:
        try:
            refuse_cycle(left)
        except TopologyError as error:
            names = [JobName(name) for name in error.cycle]
            yield domain.finding(names[0], error, *names[1:])
            left = {name: job for name, job in left.items() if name not in names}
        else:
            return


def _groups(domain: _Domain) -> Iterator[Finding]:
    """Yield commit groups that would never publish: each circle once, and each name in a list that no job has."""
    listed = {name: job.group for job in domain.jobs.values() if job.group for name in job.group.jobs}
    told = set[str]()
    without = {
        name for name, job in domain.jobs.items() if job.group is None
    }  # they say most of what is wrong
    for name in sorted(listed, key=lambda name: (name not in without, name)):
        job, group = domain.jobs.get(name), listed[name]
        if job is None:
            user = next(known.name for known in domain.jobs.values() if known.group == group)
            yield Finding(
                subject=f"group {group.name}",
                found=f"its list names job {name!r}, which no task here computes",
                next_step="correct the name in the group, which waits for all jobs of its list; or let the folder have "
                "the DAG of that job, too.",
                places=domain.places.get(user, ()),
            )
            continue
        try:
            check_groups(job, domain.jobs)
        except TopologyError as error:
            commits = {error.owner, job.name if job.group is None else job.group.name}
            if not commits & told:
                yield domain.finding(name, error)
            told |= commits


def _tables_without_writer(domain: _Domain, waits: Iterable[Awaited]) -> Iterator[Finding]:
    written = {table.name for job in domain.jobs.values() for table in job.outputs}
    readers: dict[TableName, list[str]] = {}
    for job in domain.jobs.values():
        for edge in job.edges:
            readers.setdefault(edge.table, []).extend(domain.places[job.name])
    for wait in waits:
        readers.setdefault(wait.table, []).append(wait.place)
    for table in sorted(readers.keys() - written):
        yield Finding(
            subject=f"table {table}",
            found="tasks read it or wait for it, and no job here writes it",
            next_step="correct its name or its domain, or check the folder of its job together with this one.",
            places=tuple(dict.fromkeys(readers[table])),
        )


def _unlike_tables(domain: _Domain) -> Iterator[Finding]:
    """Yield tables that a reader declares otherwise than their job: an edge then reads another range."""
    owners = {table.name: (job.name, table) for job in domain.jobs.values() for table in job.outputs}
    for name, reader in domain.declarations.items():
        for read in reader.input_tables:
            owner = owners.get(read.name)
            if owner is not None and _nature(owner[1]) != _nature(read):
                job, table = owner
                yield Finding(
                    subject=f"table {read.name}",
                    found=f"job {name} reads it as {' '.join(_nature(read))}, and job {job} writes it as "
                    f"{' '.join(_nature(table))}",
                    next_step="declare the table once, in a module that both import.",
                    places=tuple(dict.fromkeys((*domain.places[name], *domain.places[job]))),
                )


def _nature(table: Table) -> tuple[str, str]:
    return table.kind.value, table.format
