"""What was at work in the recorded stores, run by an older version of the package; the tests go on with it.

Started as a program, with the URL of a store that has its schema, a folder, and the URL of a catalog elsewhere or
nothing: leaves jobs, tables, bounds of files, a revision, an earlier declaration, a lease, and two open epochs.
"""

from __future__ import annotations

import os
import sys
import zlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.defaults import DEFAULTS
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.source_bounds import BoundFile, FileSource, SourceBounds
from airflow_provider.domain.topology import Job, Table, increment, previous
from airflow_provider.testing.arrow_attempts import write_rows

DOMAIN = "shared"
ORIGIN = datetime(2024, 1, 1, tzinfo=UTC)
FIRST, SECOND = (Table(name, domain=DOMAIN, format="iceberg") for name in ("first", "second"))
LEASE = "report"
_CENTURY = timedelta(days=36_525)


def day(number: int) -> Interval:
    return Interval(ORIGIN + timedelta(days=number - 1), ORIGIN + timedelta(days=number))


def settings_of(store_url: str, folder: Path, catalog_url: str = "") -> Settings:
    """Where store, tables and catalog are."""
    return Settings(
        store_url=store_url, warehouse=f"file://{folder}/warehouse", catalog_url=catalog_url or None
    )


def first() -> Job:
    """Declare the job that reads files; its location is the same wherever the store is loaded."""
    landing = FileSource("landing", "file:///landing/{start:%Y-%m-%d}.csv", "ignore")
    return Job(
        "first", inputs=[landing], outputs=[FIRST], cadence="@daily", origin=ORIGIN, on_rerun="new_revision"
    )


def second(inactive_after: int | None = None) -> Job:
    """Declare the job that reads the first one's table; another number is another declaration.

    What becomes of a run again is said in words: the default is another one since.
    """
    inputs: list[Any] = [increment(FIRST), previous(SECOND)]
    return Job(
        "second",
        inputs=inputs,
        outputs=[SECOND],
        cadence="@daily",
        origin=ORIGIN,
        on_rerun="new_revision",
        inactive_after=inactive_after,
    )


def landed(folder: Path, number: int) -> dict[str, SourceBounds]:
    """Return the bounds of a day's file, which is made where there is none."""
    path = folder / "landing" / f"{day(number).start:%Y-%m-%d}.csv"
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        path.write_text(f"{number}\n")
        seconds = day(number).end.timestamp()
        os.utime(path, (seconds, seconds))
    status = path.stat()
    file = BoundFile(uri=f"file://{path}", size_bytes=status.st_size, modified=status.st_mtime_ns // 1000)
    return {"landing": SourceBounds(source="landing", files=(file,))}


def begun(
    service: EpochService, job: Job, number: int, *, tries: int = 1, generation: int = 0, **options: Any
) -> Attempt:
    owner = Owner(dag_id="dag", run_id=f"day {number}", try_number=tries, generation=generation)
    attempt = service.begin(job, day(number), owner, **options)
    assert isinstance(attempt, Attempt), attempt
    return attempt


def written(service: EpochService, attempt: Attempt, value: int) -> Attempt:
    write_rows(service, attempt, attempt.job, pa.table({"number": [value]}))
    return attempt


def rows(service: EpochService, name: str, cut: Any = None) -> list[int]:
    """Return the rows of a table, in *cut* or now."""
    found = service.cuts.read(cut or service.cuts.cut(DOMAIN, [name]), name, columns=["number"])
    return sorted(found["number"].to_pylist())


def leave(service: EpochService, folder: Path) -> None:
    """Work, and stop in the middle."""
    coordinator, job = service, first()
    for number in (1, 2, 3):
        attempt = begun(service, job, number, sources=landed(folder, number))
        coordinator.publish(written(service, attempt, number))
    attempt = begun(service, job, 3, generation=1, sources=landed(folder, 3))
    coordinator.publish(written(service, attempt, 30))
    for number in (1, 2):
        coordinator.publish(written(service, begun(service, second(), number), 10 * number))
    service.leases.acquire(service.cuts.cut(DOMAIN, ["first", "second"]), name=LEASE, owner="reader")
    attempt = written(service, begun(service, job, 4, sources=landed(folder, 4)), 4)
    (folder / "attempt.json").write_bytes(msgspec.json.encode(attempt))
    begun(service, second(7), 3)


def main() -> None:
    """Leave files in which paths can be replaced by others of the same length: nothing is compressed."""
    store_url, folder, *catalog_url = sys.argv[1:]
    make, compress = zlib.compressobj, zlib.compress
    zlib.compressobj = lambda *_, wbits=zlib.MAX_WBITS: make(0, zlib.DEFLATED, wbits)
    zlib.compress = lambda data, *_: compress(data, 0)
    defaults = replace(DEFAULTS, lease_ttl=_CENTURY, lease_longest=_CENTURY)
    settings = settings_of(store_url, Path(folder), *catalog_url)
    with EpochService.open(settings, defaults=defaults) as service:
        leave(service, Path(folder))


if __name__ == "__main__":
    main()
