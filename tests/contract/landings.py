"""A job over folders of files, one for each day, by a source whose name, location or window changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from airflow_provider.coordination.upkeep.doctor import examine
from airflow_provider.domain.completeness import none_needed
from airflow_provider.domain.epoch import AlreadyCommitted, Attempt
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.source_bounds import FileSource
from airflow_provider.domain.topology import Job
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.testing.faults import Call, FaultyStore
from tests.contract.coordination_world import DOMAIN, World, day, owner

FILES = SourceReaders()
BY_START, BY_END = "{start:%Y-%m-%d}/*.csv", "{end:%Y-%m-%d}/*.csv"


class Landing:
    """The folders, the job and its runs."""

    def __init__(self, world: World, directory: Path) -> None:
        self.world, self.directory = world, directory

    def source(self, name: str, location: str = BY_START, **options: object) -> FileSource:
        declared = {"complete": none_needed(), **options}
        return FileSource(name, f"{self.directory}/{location}", **declared)  # type: ignore[arg-type]

    def job(self, name: str, location: str = BY_START, **options: object) -> Job:
        return self.world.job("load", inputs=[self.source(name, location, **options)])

    def land(self, number: int, *names: str) -> None:
        for name in names:
            path = self.directory / f"{day(number).start:%Y-%m-%d}" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(name)

    def run(self, job: Job, epoch: Interval, by: Owner | None = None) -> list[str]:
        """Compute *epoch*; return the names of its files."""
        attempt = self.world.begin(job, epoch, by or owner(), sources=FILES)
        self.world.write(attempt)
        self.world.coordinator.publish(attempt)
        return [Path(file.uri).name for file in attempt.sources[0].files]

    def begin(self, job: Job, epoch: Interval) -> Attempt | AlreadyCommitted:
        return self.world.coordinator.begin(job, epoch, owner("meanwhile"), sources=FILES)

    def begin_while(self, job: Job, epoch: Interval, meanwhile: Callable[[], object]) -> None:
        """Begin, and let *meanwhile* happen once, right before the transaction."""
        pending = [meanwhile]

        def before(call: Call) -> None:
            if call.method == "transact" and pending:
                pending.pop()()

        slow = self.world.worker(FaultyStore(self.world.store, before))
        slow.begin(job, epoch, owner("again"), sources=FILES)

    def told(self) -> list[tuple[str, bool]]:
        """Return what doctor says of sources, and whether it is urgent."""
        symptoms = examine(self.world.store, self.world.formats, DOMAIN).symptoms
        return [
            (f"{found.found} {found.next_step}", found.urgent)
            for found in symptoms
            if "source" in found.subject
        ]

    def texts(self) -> list[str]:
        return [text for text, _ in self.told()]
