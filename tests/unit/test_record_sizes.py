"""What each kind of record may hold at most, and what refuses more (docs/reference/store.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider.domain import sizes
from airflow_provider.domain.cut import State
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import AttemptRecord, Commitment, EpochRecord, Provenance
from airflow_provider.domain.errors import InvalidInput, RecordFull
from airflow_provider.domain.expired import MOST_RANGES, ExpiredPage
from airflow_provider.domain.identifiers import ChangeSetId, DomainName, JobName, TableName
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.lease import LeaseRecord
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Key, Kind
from airflow_provider.domain.registration import MOST_LEFT_SOURCES, JobRecord
from airflow_provider.domain.restatement import JobEpochs, RestatementRecord
from airflow_provider.domain.retention import RetentionRecord, Version, VersionsRecord
from airflow_provider.domain.source_bounds import FileSource
from airflow_provider.domain.topology import Edge, EdgeKind, Group, Job, Table
from airflow_provider.domain.version import (
    CommitRecord,
    Member,
    Rewrite,
    RewriteLog,
    TableDelta,
    TableRecord,
    TableRef,
    TableVersion,
)
from airflow_provider.domain.watermark import Progress
from airflow_provider.stores.codec import encode
from airflow_provider.testing.store_cases.samples import sample
from tests.declarations import declared

STORE_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "store.md"
START = datetime(2024, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
NAME = 255
"""Bytes of the longest name."""
LOCATION = 1_024
"""Bytes of the longest key in S3."""
REF = TableRef(
    format="iceberg", table_uuid="u" * 36, version=2**62, location="s3://" + "l" * LOCATION, schema_id=1_000
)


def hour(number: int) -> Interval:
    return Interval(START + number * HOUR, START + (number + 1) * HOUR)


def name(number: int, length: int = NAME) -> TableName:
    return TableName(f"{number:05d}".ljust(length, "n"))


def job(**changes: Any) -> JobRecord:
    """A job's record as it is stored at first."""
    table = Table("t")
    return replace(declared(Job("j", outputs=[table], cadence="@hourly"), None), **changes)


def largest_job() -> JobRecord:
    past = [Edge(name(number, 60), EdgeKind.WINDOW, length=HOUR) for number in range(sizes.MOST_LEFT_OUT)]
    return job(
        outputs=tuple(Table(name(number, 60)) for number in range(sizes.MOST_TABLES)),
        edges=tuple(past[: sizes.MOST_INPUTS]),
        earlier=("f" * 32,) * sizes.MOST_DECLARATIONS,
        past_edges=tuple(past),
        past_outputs=tuple(name(number, 60) for number in range(sizes.MOST_LEFT_OUT)),
        past_sources=tuple(name(number, 60) for number in range(sizes.MOST_LEFT_OUT)),
        left_sources=tuple(
            FileSource(name(number, 60), name(number, 1000), "ignore") for number in range(MOST_LEFT_SOURCES)
        ),
    )


def largest_commit() -> CommitRecord:
    """Of a job with as many tables as one may have, all names and locations as long as they get."""
    deltas = tuple(
        TableDelta(table=name(number), interval=hour(0), revision=9, watermark=START, ref=REF, rows=2**40)
        for number in range(sizes.MOST_TABLES)
    )
    member = Member(job=JobName("j" * NAME), interval=hour(0), revision=9)
    return CommitRecord(change_set=ChangeSetId("c" * 300), members=(member,), by="b" * 1_000, tables=deltas)


def largest_restatement() -> RestatementRecord:
    """Of as many epochs as one commit may have, all of them asked for."""
    epochs = JobEpochs(job=JobName("j" * 60), intervals=tuple(map(hour, range(sizes.MOST_RESTATED))))
    return RestatementRecord(
        reason="r" * 1_000, by="b" * 1_000, asked=(epochs,), members=(epochs,), incarnation="i" * 36
    )


def test_the_commit_of_the_largest_restatement_fits() -> None:
    """R28: what the plan lets through has room in the record of its commit."""
    tables, job = 100, "j" * 55
    members = tuple(
        Member(job=JobName(job), interval=hour(number), revision=99) for number in range(sizes.MOST_RESTATED)
    )
    assert sizes.restated_bytes([job] * len(members), tables) > sizes.MOST_RESTATED_BYTES
    fitting = members[: (sizes.MOST_RESTATED_BYTES - 700 * tables) // (115 + len(job))]
    assert sizes.restated_bytes([job] * len(fitting), tables) <= sizes.MOST_RESTATED_BYTES
    ref = replace(REF, location="s3://" + "l" * 150)
    delta = TableDelta(table=name(0, 60), interval=hour(0), revision=9, watermark=START, ref=ref, rows=2**40)
    record = CommitRecord(
        change_set=ChangeSetId("c" * 300), members=fitting, by="b" * 1_000, tables=(delta,) * tables
    )
    assert len(encode(Key(DomainName("d"), Kind.COMMIT, "", "item"), record)) < 1_000_000


def table_of(stretches: int) -> TableRecord:
    moved = TableVersion(csn=2**40, origin=START, watermark=START, ref=REF)
    return TableRecord(
        job=JobName("j" * NAME),
        kind=Table("t").kind,
        cadence=Cadence("@hourly"),
        progress=Progress(origin=START, islands=tuple(hour(2 * number) for number in range(stretches))),
        ref=REF,
        earlier=(moved,) * DEFAULTS.states_remembered,
    )


LARGEST: Mapping[Kind, Callable[[], Any]] = {
    Kind.JOB: largest_job,
    Kind.TABLE: lambda: table_of(DEFAULTS.most_stretches),
    Kind.REWRITE_LOG: lambda: RewriteLog(
        latest=hour(0),
        earlier=(Rewrite(csn=2**40, low=START, high=START + HOUR),) * DEFAULTS.rewrites_remembered,
        calendars=(Rewrite(csn=2**40, low=START, high=START + HOUR),) * DEFAULTS.rewrites_remembered,
    ),
    Kind.COMMIT: largest_commit,
    Kind.RETENTION: lambda: RetentionRecord(horizon=2**40),
    Kind.VERSIONS: lambda: VersionsRecord(
        versions=tuple(Version(csn=2**40 + number, ref=REF) for number in range(DEFAULTS.versions_in_page))
    ),
    Kind.RESTATEMENT: largest_restatement,
    Kind.EXPIRED: lambda: ExpiredPage(ranges=tuple(hour(2 * number) for number in range(MOST_RANGES))),
}
"""Records that are bounded by number, at their bounds."""
CONSTANT = {Kind.TOPOLOGY, Kind.LOCK, Kind.SLICE, Kind.RESERVATION, Kind.COMPACTION}
"""Records of which no field has a length of its own, but for names and reasons."""
BY_BYTES = {Kind.SCHEMA, Kind.EPOCH, Kind.EVENT, Kind.SOURCE, Kind.LEASE}
"""Records that are refused by their bytes when they are written: where, is said in the page."""


@pytest.mark.parametrize("kind", list(LARGEST))
def test_a_record_at_its_bounds_fits(kind: Kind) -> None:
    body = encode(Key(DomainName("d"), kind, "partition", "item"), LARGEST[kind]())
    assert len(body) < 1_000_000, f"{kind}: {len(body)}"


def state_of(number: int, length: int, location: int) -> State:
    ref = replace(REF, location="s3://" + "l" * location)
    kind = Table("t").kind
    return State(table=name(number, length), kind=kind, barrier=START, low=START, csn=2**40, ref=ref)


def lease_of(tables: int, length: int, location: int) -> LeaseRecord:
    states = tuple(state_of(number, length, location) for number in range(tables))
    return LeaseRecord(owner="o" * NAME, ttl=HOUR, csn=2**40, barrier=START, states=states)


def epoch_of(inputs: int, tables: int, length: int, location: int) -> EpochRecord:
    """An epoch that is computed again: what it reads now beside what it has read."""
    ref, owner = replace(REF, location="s3://" + "l" * location), Owner(dag_id="d" * NAME, run_id="r" * NAME)
    read = tuple(
        Provenance(table=name(number, length), kind=EdgeKind.STATE, low=START, high=START, csn=2**40, ref=ref)
        for number in range(inputs)
    )
    attempt = AttemptRecord(
        revision=9,
        token=9,
        owner=owner,
        inputs=read,
        input_generation=9,
        sources=(),
        baseline=tuple((name(number, length), ref) for number in range(tables)),
        job_revision=9,
    )
    committed = Commitment(
        revision=8, token=8, output_token=8, owner=owner, change_set=ChangeSetId("c" * 300), inputs=read
    )
    return EpochRecord(interval=hour(0), token=9, attempt=attempt, committed=committed)


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        (Kind.LEASE, lease_of(600, NAME, LOCATION)),
        (Kind.LEASE, lease_of(2_000, 60, 150)),
        (Kind.EPOCH, epoch_of(sizes.MOST_INPUTS, sizes.MOST_TABLES, 60, 150)),
    ],
    ids=["lease-longest", "lease-usual", "epoch-usual"],
)
def test_documented_sizes_fit(kind: Kind, record: Any) -> None:
    assert len(encode(Key(DomainName("d"), kind, "partition", "item"), record)) < 1_000_000


def test_every_kind_has_a_bound_and_a_row_in_the_docs() -> None:
    assert {*LARGEST, *CONSTANT, *BY_BYTES} == set(Kind)
    section = STORE_PAGE.read_text().partition("## What a record may hold")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == sorted(kind.value for kind in Kind)


@pytest.mark.parametrize("kind", sorted(BY_BYTES))
def test_records_without_a_count_limit_are_refused_by_size(kind: Kind) -> None:
    record = sample(kind)
    text = next(
        field
        for field in ("schema", "note", "by", "owner", "interval")
        if isinstance(getattr(record, field, None), str) or field == "interval"
    )
    if text == "interval":
        attempt = replace(record.attempt, skips="s" * 1_000_001)
        record, text = replace(record, attempt=attempt), ""
    with pytest.raises(InvalidInput) as refused:
        encode(
            Key(DomainName("d"), kind, "partition", "item"),
            replace(record, **{text: "x" * 1_000_001}) if text else record,
        )
    assert refused.value.field == f"record of {kind}"
    assert isinstance(refused.value.value, int)
    assert refused.value.value > 1_000_000
    assert refused.value.expected == "at most 1000000 bytes"


@pytest.mark.parametrize(
    ("field", "number", "entry"),
    [
        ("outputs", sizes.MOST_TABLES, Table("t")),
        ("edges", sizes.MOST_INPUTS, Edge(TableName("t"), EdgeKind.STATE)),
        ("earlier", sizes.MOST_DECLARATIONS, "f"),
        ("past_edges", sizes.MOST_LEFT_OUT, Edge(TableName("t"), EdgeKind.STATE)),
        ("past_outputs", sizes.MOST_LEFT_OUT, TableName("t")),
        ("past_sources", sizes.MOST_LEFT_OUT, "r"),
        ("left_sources", MOST_LEFT_SOURCES, FileSource("r", "/r", "ignore")),
    ],
)
def test_a_declaration_that_does_not_fit_is_refused(field: str, number: int, entry: Any) -> None:
    """R6: naming what there is too much of, how much, and the limit."""
    sizes.refuse_large(job(**{field: (entry,) * number}))
    with pytest.raises(RecordFull) as refused:
        sizes.refuse_large(job(**{field: (entry,) * (number + 1)}))
    assert (refused.value.number, refused.value.limit) == (number + 1, number)
    assert "job 'j'" in refused.value.record


def test_a_group_whose_commit_does_not_fit_is_refused() -> None:
    """R40: when the job is declared, and not when its group is to be published; retired jobs count no more."""
    group = Group("g", jobs=[f"j{number}" for number in range(20)])
    every = [
        replace(
            job(outputs=(Table("t"),) * sizes.MOST_TABLES, group=group),
            name=JobName(f"j{number}"),
        )
        for number in range(20)
    ]
    most = next(number for number in range(20) if not fits(every[: number + 1]))
    assert most > 1
    sizes.refuse_large_group(
        every[0], [*every[1:most], *(replace(each, retired="over") for each in every[most:])]
    )
    with pytest.raises(RecordFull, match="bytes of the commit of group 'g'") as refused:
        sizes.refuse_large_group(every[0], every[1 : most + 1])
    assert refused.value.limit == sizes.MOST_RESTATED_BYTES
    sizes.refuse_large_group(replace(every[0], group=None), every)


def fits(jobs: list[JobRecord]) -> bool:
    """Whether one commit may have a barrier of *jobs*."""
    tables = sum(len(each.outputs) for each in jobs)
    return sizes.restated_bytes([each.name for each in jobs], tables) <= sizes.MOST_RESTATED_BYTES


def test_a_gap_too_many_is_refused_and_no_other_epoch() -> None:
    """R12: what touches committed time goes on, also in a table that has more gaps than are allowed by now."""
    for stretches in (3, 5):
        tables = {TableName("t"): table_of(stretches)}
        for touching in (1, 0, 2 * stretches - 1):
            sizes.refuse_gaps(hour(touching), tables, 3)
        with pytest.raises(RecordFull) as refused:
            sizes.refuse_gaps(hour(100), tables, 3)
        assert (refused.value.number, refused.value.limit) == (stretches + 1, 3)
        assert "'t'" in refused.value.record
    sizes.refuse_gaps(hour(100), {TableName("t"): table_of(2)}, 3)
