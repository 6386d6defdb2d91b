"""Works on a store as it is told, line by line: run with this version of the package, or with an older one."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain import topology
from airflow_provider.domain.epoch import Attempt, Owner  # type: ignore[attr-defined]  # there in both versions
from airflow_provider.domain.identifiers import DomainName, JobName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import job_key
from airflow_provider.domain.topology import increment, previous
from airflow_provider.testing.arrow_attempts import write_rows

# Names in the older version and in this one.
IS_OLDER = "EpochJob" in vars(topology)
Job: Any = vars(topology)["EpochJob" if IS_OLDER else "Job"]
Table: Any = vars(topology)["EpochTable" if IS_OLDER else "Table"]
INACTIVE_AFTER = "lapses_after" if IS_OLDER else "inactive_after"
DOMAIN = "shared"
ORIGIN = datetime(2024, 1, 1, tzinfo=UTC)


def day(number: int) -> Interval:
    return Interval(ORIGIN + timedelta(days=number - 1), ORIGIN + timedelta(days=number))


def job(name: str, inactive_after: int | None = None) -> Any:
    """Declare "first", or "second", which reads it and its own past; another number is another declaration."""
    tables = {table: Table(table, domain=DOMAIN, format="iceberg") for table in ("first", "second")}
    inputs = [] if name == "first" else [increment(tables["first"]), previous(tables["second"])]
    return Job(
        name,
        inputs=inputs,
        outputs=[tables[name]],
        cadence="@daily",
        origin=ORIGIN,
        on_rerun="new_revision",
        **{INACTIVE_AFTER: inactive_after},
    )


class Worker:
    """One process's service, and the attempts that it has begun."""

    def __init__(self, service: EpochService) -> None:
        self.service = service
        # An older version has the operations of an attempt on an object of their own.
        self.operations: Any = getattr(service, "coordinator", service)
        self.attempts: dict[str, Attempt] = {}

    def begin(self, name: str, number: int, run: str = "scheduled", inactive_after: int | None = None) -> int:
        owner = Owner(dag_id="dag", run_id=run, try_number=1, generation=0)
        attempt = self.operations.begin(job(name, inactive_after), day(number), owner)
        assert isinstance(attempt, Attempt), attempt
        self.attempts[name] = attempt
        return attempt.token

    def declared(self, name: str) -> list[Any]:
        """What the job's record has: revision, number of epochs after which it is inactive, earlier declarations."""
        key = job_key(DomainName(DOMAIN), JobName(name))
        record = self.service.store.read(DomainName(DOMAIN), [key]).records[key].record
        return [record.revision, getattr(record, INACTIVE_AFTER), len(record.earlier)]

    def write(self, name: str, value: int) -> None:
        write_rows(self.operations, self.attempts[name], name, pa.table({"number": [value]}))

    def heartbeat(self, name: str) -> None:
        self.operations.heartbeat(self.attempts[name])

    def publish(self, name: str) -> int:
        return self.operations.publish(self.attempts[name]).csn

    def run(self, name: str, number: int, value: int, run: str = "scheduled") -> int:
        self.begin(name, number, run)
        self.write(name, value)
        return self.publish(name)

    def rows(self, name: str) -> list[int]:
        found = self.service.cuts.read(self.service.cuts.cut(DOMAIN, [name]), name, columns=["number"])
        return sorted(found["number"].to_pylist())

    def lease(self, owner: str) -> None:
        self.service.leases.acquire(self.service.cuts.cut(DOMAIN, ["first"]), name=owner, owner=owner)

    def leases(self) -> list[str]:
        return sorted(lease.owner for lease in self.service.leases.all(DOMAIN))

    def vacuum(self) -> int:
        retention: Any = self.service.retention
        return (retention.sweep if IS_OLDER else retention.vacuum)(DOMAIN).horizon


def answer(worker: Worker, call: list[Any]) -> dict[str, Any]:
    """What came of one call, or which error."""
    method, *arguments = call
    try:
        return {"found": getattr(worker, method)(*arguments)}
    except Exception as error:  # noqa: BLE001 - for the test that called
        return {"error": type(error).__name__, "message": str(error)}


def main() -> None:
    """Read the store's URL and the warehouse, then one call a line; answer each with a line."""
    store_url, warehouse = sys.argv[1:]
    with EpochService.open(Settings(store_url=store_url, warehouse=warehouse)) as service:
        worker = Worker(service)
        for line in sys.stdin:
            print(json.dumps(answer(worker, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
