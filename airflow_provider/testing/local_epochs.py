"""Epochs in a folder, for tests of pipelines: commit rows as a job would, run the job under test, read a cut."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import pyarrow as pa
from uuid6 import uuid7

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.cut import Cut
from airflow_provider.domain.epoch import Attempt, Published
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.schedule import ExplicitInterval, run_interval
from airflow_provider.domain.topology import Job, Table, as_job
from airflow_provider.tables.base import EPOCH_COLUMN
from airflow_provider.testing.arrow_attempts import write_rows

if TYPE_CHECKING:
    import pandas as pd

    Rows: TypeAlias = pa.Table | pd.DataFrame | Sequence[Mapping[str, Any]]


class LocalEpochs(PathLike[str]):
    """A store on SQLite and a warehouse in *folder*, open; close it, or use it in a ``with`` block.

    ``epoch_run(…, local=…)`` and ``connect(local=…)`` take the same folder. Time is the host's: the caller names the
    epoch, so that a test needs no clock of its own.

    :param folder: an existing folder.
    :raises InvalidInput: *folder* is not an existing folder.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder).absolute()
        self.settings = Settings.local(folder)
        self.service = EpochService.open(self.settings)

    @property
    def connection(self) -> str:
        """Value of ``AIRFLOW_CONN_EPOCHS_DEFAULT`` for this store and warehouse."""
        fields = {
            "conn_type": "epochs",
            "host": self.settings.store_url.partition(":///")[2],
            "extra": {"warehouse": self.settings.warehouse},
        }
        return json.dumps(fields)

    def commit(self, job: Job, interval: ExplicitInterval, rows: Mapping[str | Table, Rows]) -> Published:
        """Publish *rows* as if *job* had computed them, without Spark.

        The job's inputs, sources and checks are left out: a test defines a table's rows, not their origin. A second
        call for the same epoch makes a new revision.

        :param interval: one epoch, or its start as text, such as ``2024-05-01``.
        :param rows: rows of each output of the job: an Arrow table, a pandas DataFrame, or dictionaries.
        :raises InvalidInput: *interval* is not an epoch of the job, or *rows* are not of its outputs; nothing is
            written.
        :raises SchemaMismatch: a column does not fit the table's; names it.
        :raises DependentReaders: a committed epoch depends on the present revision.
        """
        given = Job(
            as_job(job).name,
            outputs=job.outputs,
            cadence=job.cadence,
            origin=job.origin,
            on_rerun="new_revision",
        )
        epoch = _one_epoch(given, interval)
        tables = self._tables(given, rows)
        owner = Owner(dag_id="rows given by a test", run_id=str(uuid7()))
        attempt = self.service.begin(given, epoch, owner)
        if not isinstance(attempt, Attempt):
            raise TypeError(f"{attempt} was committed by a run that had just begun")
        try:
            for name, table in tables.items():
                write_rows(self.service, attempt, name, table)
            return self.service.publish(attempt)
        except BaseException as error:
            self.service.abort(attempt, f"{type(error).__name__} while rows of a test were written")
            raise

    def rows(self, table: str | Table, *, at: datetime | None = None) -> list[dict[str, Any]]:
        """Return the rows of *table*, sorted by their text, so that a test can compare them.

        :param at: latest barrier to read; None for the newest.
        :raises NotReady: nothing is committed. :raises UnknownName: there is no such table.
        """
        found = self.service.cuts.read(self._cut(table, at), table).drop_columns(EPOCH_COLUMN)
        return sorted(found.to_pylist(), key=str)

    def pandas(self, table: str | Table, *, at: datetime | None = None) -> pd.DataFrame:
        """Return the same rows as :meth:`rows`, as a DataFrame with Arrow's types, in no order."""
        import pandas as pd

        rows = self.service.cuts.read(self._cut(table, at), table).drop_columns(EPOCH_COLUMN)
        frame: pd.DataFrame = rows.to_pandas(types_mapper=pd.ArrowDtype)
        return frame

    def close(self) -> None:
        """Close the connections; the folder stays. May be called twice."""
        self.service.close()

    def _cut(self, table: str | Table, at: datetime | None) -> Cut:
        domain = table.domain if isinstance(table, Table) else "default"
        return self.service.cuts.cut(domain, [table], at=at)

    def _tables(self, job: Job, rows: Mapping[str | Table, Rows]) -> dict[str, pa.Table]:
        given = {table.name if isinstance(table, Table) else table: value for table, value in rows.items()}
        wanted = [str(table.name) for table in job.outputs]
        if sorted(given) != sorted(wanted):
            raise InvalidInput(
                field="rows",
                value=sorted(given),
                expected=f"rows of each output of job {job.name!r}: {wanted}",
                next_step="give an empty table to an output that has no rows in this epoch.",
            )
        return {table.name: self._arrow(table, given[table.name]) for table in job.outputs}

    def _arrow(self, table: Table, rows: Rows) -> pa.Table:
        import pandas as pd

        if isinstance(rows, pa.Table):
            return rows
        if isinstance(rows, pd.DataFrame):
            return pa.Table.from_pandas(rows, preserve_index=False)
        if not isinstance(rows, list | tuple) or not all(isinstance(row, Mapping) for row in rows):
            raise _bad_rows(table, "an Arrow table, a pandas DataFrame, or a list of dictionaries", rows)
        names = {frozenset(row) for row in rows}
        if len(names) > 1:
            raise _bad_rows(table, "the same columns in each row", sorted(map(sorted, names)))
        known = self._columns(table)
        if not names and known is None:
            raise _bad_rows(table, "an Arrow table: no row says which columns the table has", rows)
        fits = known is not None and names <= {frozenset(known.names)}
        try:
            return pa.Table.from_pylist(list(rows), known if fits else None)
        except (pa.ArrowException, TypeError) as error:
            raise _bad_rows(table, f"values of one type in each column ({error})", rows) from error

    def _columns(self, table: Table) -> pa.Schema | None:
        """Return the table's columns without the epoch; None if there is no table."""
        table_format = self.service.formats[table.format]
        info = table_format.describe(table)
        if info is None:
            return None
        known = table_format.arrow_schema(info.schema)
        return known.remove(known.get_field_index(EPOCH_COLUMN))

    def __fspath__(self) -> str:
        return str(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _one_epoch(job: Job, interval: ExplicitInterval) -> Interval:
    epochs = job.cadence.split(run_interval(job.cadence, explicit=interval))
    if len(epochs) != 1:
        raise InvalidInput(
            field="interval",
            value=str(interval),
            expected=f"one epoch of {job.name!r} ({job.cadence}), not {len(epochs)}",
            next_step="commit each by itself.",
        )
    return epochs[0]


def _bad_rows(table: Table, expected: str, value: object) -> InvalidInput:
    return InvalidInput(field=f"rows of {table.name}", value=value, expected=expected)
