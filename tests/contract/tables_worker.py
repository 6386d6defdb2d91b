"""Changes tables in a ZooKeeper store as it is told, line by line: run with an older version of the package.

It needs nothing but the older version: first it makes the store.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from threading import Event, Thread
from typing import Any

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind
from airflow_provider.stores.base import Put, Transaction
from airflow_provider.stores.factory import open_store, upgrade_schema
from airflow_provider.stores.zookeeper.session import Deadline

DOMAIN = DomainName("d")
KEYS = [Key(DOMAIN, Kind.TABLE, "", f"table-{number:04d}") for number in range(40)]


class Worker:
    """A client of format 1, which reads tables from the checkpoint that the head names."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.copied, self.publishes = Event(), Event()
        self.made: list[bool] = []
        self.author = Thread(target=self._checkpoint)

    def jobs(self) -> dict[str, int]:
        """Return how many tables each job has."""
        found = self.store.read(DOMAIN, KEYS).records.values()
        return dict(Counter(stamped.record.job for stamped in found))

    def move(self, number: int, job: str) -> None:
        """Give a table to another job."""
        key = KEYS[number]
        record = self.store.read(DOMAIN, [key]).records[key].record
        self.store.transact(Transaction(domain=DOMAIN, updates=(Put(key, replace(record, job=job)),)))

    def checkpoint(self) -> bool:
        """Make a checkpoint; return whether the head names it."""
        made: bool = self.store._maintenance.checkpoint(DOMAIN, Deadline(20))
        return made

    def begin_checkpoint(self) -> None:
        """Begin a checkpoint; return when all tables are copied."""
        copies = self.store._maintenance._copies

        def held(*asked: Any) -> Any:
            found = copies(*asked)
            self.copied.set()
            assert self.publishes.wait(60)
            return found

        self.store._maintenance._copies = held
        self.author.start()
        assert self.copied.wait(60)

    def end_checkpoint(self) -> bool:
        """Let the checkpoint that was begun be published; return whether the head names it."""
        self.publishes.set()
        self.author.join()
        return self.made[0]

    def _checkpoint(self) -> None:
        self.made.append(self.checkpoint())


def main() -> None:
    url = sys.argv[1]
    upgrade_schema(url)
    with open_store(url) as store:
        worker = Worker(store)
        for line in sys.stdin:
            method, *arguments = json.loads(line)
            print(json.dumps({"found": getattr(worker, method)(*arguments)}), flush=True)


if __name__ == "__main__":
    main()
