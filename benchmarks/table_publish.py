"""What publishing an epoch of an Iceberg table costs as its history grows: ``python -m benchmarks.table_publish``.

Publishes one file of 21 columns again and again and prints the median of the processor time around the 10th and
around the last publish. Files lie on a memory disk where there is one, so that the disk is not measured.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.topology import EpochTable
from airflow_provider.stores.factory import open_store
from airflow_provider.tables.factory import open_formats
from airflow_provider.testing.table_cases.backend import Publisher, day

ROW = pa.record_batch({**{f"c{number}": [1.0] for number in range(20)}, "id": [1]})


def publish_ms(publisher: Publisher, table: EpochTable, number: int) -> float:
    """Processor time of one publish, staging not counted."""
    staged = publisher.stage(table, day(number), [ROW])
    began = time.process_time()
    publication = publisher.publication(table, (day(number), staged))
    publisher.commit((publication, publisher.format.prepare(publication)))
    return (time.process_time() - began) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--publishes", type=int, default=1000)
    count = parser.parse_args().publishes
    memory_disk = Path("/dev/shm")  # noqa: S108
    with tempfile.TemporaryDirectory(dir=memory_disk if memory_disk.is_dir() else None) as folder:
        url = f"sqlite:///{folder}/store.db"
        with open_store(url) as store, open_formats(url, f"{folder}/warehouse") as formats:
            publisher = Publisher(formats["iceberg"], store, DomainName("benchmark"))
            table = publisher.table()
            publisher.create(table, ROW.schema)
            took = [publish_ms(publisher, table, number) for number in range(count)]
    early, late = statistics.median(took[5:16]), statistics.median(took[-41:])
    print(f"figure tables.iceberg.publish_10th_ms {early:.1f}")
    print(f"figure tables.iceberg.publish_{count}th_ms {late:.1f}")
    print(f"figure tables.iceberg.publish_ratio {late / early:.2f}")


if __name__ == "__main__":
    main()
