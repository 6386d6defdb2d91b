"""All 66 books through the word pipeline, one an epoch, without Airflow; each cut compared with the text."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider.client.epochs import Epochs
from airflow_provider.domain.errors import NotReady, UnknownName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.source_bounds import FileSource
from airflow_provider.domain.topology import Job
from airflow_provider.spark.epoch_run import epoch_run
from airflow_provider.testing.local_epochs import LocalEpochs
from demo import books
from demo.books import BOOKS, EVERY, BookTotals
from demo.readers.words import read_books
from demo.source import Days
from spark_jobs import word_epochs, word_tables
from tests.services.spark import UNCLOSED, classic_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = Days(first=word_tables.ORIGIN.date(), count=9)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    logging.getLogger("py4j").setLevel(logging.ERROR)
    with classic_spark("local[2]", {}) as session:
        yield session


def landed_in(folder: Path, job: Job) -> Job:
    """The demo's job, with books of the test's own."""
    landed = FileSource("landed_books", f"{folder}/{books.FILE.replace('{', '{start')}")
    return Job(
        job.name,
        inputs=[*job.edges, *[landed for _ in job.sources]],
        outputs=job.outputs,
        cadence=job.cadence,
        origin=job.origin,
    )


@pytest.mark.filterwarnings(UNCLOSED)
@pytest.mark.usefixtures("spark")
def test_every_cut_of_all_books_is_the_text(tmp_path: Path) -> None:
    """DER1: a reader between any two commits sees all three tables at the book before."""
    assert books.land(tmp_path, DAYS) == BOOKS
    totals = BookTotals.of(DAYS)
    jobs = [landed_in(tmp_path, job) for job in word_tables.JOBS]
    with LocalEpochs(tmp_path) as epochs:
        reader = Epochs(epochs.service, domain=word_tables.DOMAIN)
        for number in range(1, BOOKS + 1):
            end = DAYS.start + number * EVERY
            for job in jobs:
                if number == 1:
                    with pytest.raises((NotReady, UnknownName)):
                        read_books(reader, totals)
                else:
                    before = read_books(reader, totals)
                    assert (before.barrier, before.wrong) == (end - EVERY, {})
                with epoch_run(job, Interval(end - EVERY, end), local=epochs) as epoch:
                    word_epochs.COMPUTE[job.name](epoch)
            seen = read_books(reader, totals)
            assert (seen.barrier, seen.wrong) == (end, {})
        for barrier in totals.barriers:
            assert read_books(reader, totals, at=barrier).wrong == {}
