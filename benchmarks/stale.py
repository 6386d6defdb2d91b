"""``bench.stale``: whether a table stands on rows of an input that were computed again, among 100,000 epochs (R18)."""

from __future__ import annotations

import time

from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.cut import Cut
from airflow_provider.domain.epoch import Commitment, EpochRecord, Provenance
from airflow_provider.domain.epoch_id import RevisionId
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import epoch_key, rewrite_log_key
from airflow_provider.domain.topology import EdgeKind, Job, OnUpstreamRevision, Table, state
from airflow_provider.domain.version import Rewrite, RewriteLog
from airflow_provider.stores.base import MetadataStore, Put, StoreCapability, Transaction
from airflow_provider.stores.factory import open_store
from benchmarks.figures import figure, progress
from benchmarks.histories import commit_epoch
from benchmarks.job import HOUR, ORIGIN
from benchmarks.sizes import Size
from benchmarks.stores import Store
from tests.committed import FORMATS

EPOCHS = 100_000
EPOCHS_IN_SMALL_TRANSACTIONS = 5_000
"""On ZooKeeper: it would take minutes to write more."""
_BATCH = 500
_SMALL_BATCH = 50
_READ = 2
_REWRITTEN = 3
"""CSNs of what the reader's epochs may have read, and of the commit that has computed the first epoch again."""


def measure(store: Store, size: Size = Size.FULL) -> None:
    """Print how long a cut takes a new process to answer it, and once more after another commit of the job.

    Where no epoch is behind, and where all are.
    """
    with open_store(store.url) as writer:
        is_large = StoreCapability.LARGE_TRANSACTIONS in writer.capabilities
        epochs = size.of(EPOCHS if is_large else EPOCHS_IN_SMALL_TRANSACTIONS, 4)
        for name, csn in (("current", _REWRITTEN), ("outdated", _READ)):
            domain = DomainName(f"stale-{name}")
            _write(writer, domain, epochs, csn, _BATCH if is_large else _SMALL_BATCH)
            progress(f"stale: {epochs} epochs of two jobs on {store.name}, {name}")
    for name in ("current", "outdated"):
        domain = DomainName(f"stale-{name}")
        with open_store(store.url) as reader:
            cuts = Cuts(reader, FORMATS)
            for again in ("", ".again"):
                took, found = _asked(cuts, domain)
                assert bool(found.outdated) == (name == "outdated")
                figure(f"bench.stale.{store.name}.seconds.{name}{again}", took)
                with open_store(store.url) as writer:
                    commit_epoch(writer, _jobs(domain)[1], epochs, moves=True)
    figure(f"bench.stale.{store.name}.epochs", epochs)


def _asked(cuts: Cuts, domain: DomainName) -> tuple[float, Cut]:
    began = time.perf_counter()
    found = cuts.cut(domain, ["reader"])
    return time.perf_counter() - began, found


def _jobs(domain: DomainName) -> list[Job]:
    """A base, and a job that reads all of it by an edge that ignores revisions."""
    base, reader = (Table(name, domain=domain, format="memory") for name in ("base", "reader"))
    edge = state(base, on_upstream_revision="ignore")
    return [
        Job("base", outputs=[base], cadence="@hourly", origin=ORIGIN),
        Job("reader", inputs=[edge], outputs=[reader], cadence="@hourly", origin=ORIGIN),
    ]


def _write(writer: MetadataStore, domain: DomainName, epochs: int, csn: int, batch: int) -> None:
    """Write the epochs of both jobs; the base's first one was computed again.

    :param csn: the commit at which the reader's epochs have read.
    """
    jobs = _jobs(domain)
    service = EpochService(writer, FORMATS)
    for job in jobs:
        service.register(job)
        commit_epoch(writer, job, epochs - 1, moves=True)
    for job in jobs:
        for first in range(0, epochs, batch):
            numbers = range(first, min(first + batch, epochs))
            records = [_epoch(job, number, csn) for number in numbers]
            puts = tuple(
                Put(epoch_key(domain, job.name, record.interval.start), record) for record in records
            )
            writer.transact(Transaction(domain=domain, updates=puts))
    rewrite = Rewrite(csn=_REWRITTEN, low=ORIGIN, high=ORIGIN + HOUR)
    log = Put(rewrite_log_key(domain, jobs[0].outputs[0].name), RewriteLog(earlier=(rewrite,)))
    writer.transact(Transaction(domain=domain, updates=(log,)))
    commit_epoch(writer, jobs[0], 0, moves=False)


def _epoch(job: Job, number: int, csn: int) -> EpochRecord:
    interval = Interval(ORIGIN + number * HOUR, ORIGIN + (number + 1) * HOUR)
    inputs = tuple(
        Provenance(
            table=edge.table,
            kind=EdgeKind.STATE,
            low=None,
            high=interval.end,
            csn=csn,
            ref=None,
            on_upstream_revision=OnUpstreamRevision.IGNORE,
        )
        for edge in job.edges
    )
    committed = Commitment(
        revision=1,
        token=1,
        output_token=1,
        owner=Owner(dag_id="bench", run_id=str(number)),
        change_set=RevisionId(job.domain, job.name, interval, 1).change_set,
        inputs=inputs,
    )
    return EpochRecord(interval=interval, token=1, committed=committed)
