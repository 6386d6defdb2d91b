"""Epochs of a data file: one, as its partition says, or those of a unit, as its name says.

A *unit file* holds the rows of all epochs of its table that end from ``low`` to ``high``. Its partition says nothing of
the epoch, so that engines read the epoch column; its name, and that of a manifest of such files, says the span. See
docs/decisions/unit-files.md.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import DataFile

from airflow_provider.domain.compaction import leaves_whole
from airflow_provider.domain.cut import State
from airflow_provider.domain.errors import Unavailable
from airflow_provider.domain.interval import Interval, from_micros, micros
from airflow_provider.domain.watermark import merged

Span = tuple[int, int]
"""Least and greatest barrier (microseconds); equal for a file of one epoch."""

_DATA = re.compile(r"unit-(?P<low>-?[0-9]+)-(?P<high>-?[0-9]+)-[0-9]{5}-[0-9a-f]{32}\.parquet")
_MANIFEST = re.compile(r"units-(?P<low>-?[0-9]+)-(?P<high>-?[0-9]+)-[0-9]+-[0-9a-f]{32}\.avro")


def data_name(span: Span, index: int) -> str:
    """Return a new name for the file number *index* with the rows of *span*."""
    if span[0] == span[1]:
        return f"{index:05d}-{uuid.uuid4().hex}.parquet"
    return f"unit-{span[0]}-{span[1]}-{index:05d}-{uuid.uuid4().hex}.parquet"


def manifest_name(snapshot_id: int, files: Iterable[DataFile] = ()) -> str:
    """Return a new name for a manifest of *files*: of unit files it says the epochs of all of them."""
    held = [span_of(file) for file in files if is_unit(file)]
    end = f"{snapshot_id}-{uuid.uuid4().hex}.avro"
    if not held:
        return end
    return f"units-{min(low for low, _ in held)}-{max(high for _, high in held)}-{end}"


def of_manifest(uri: str) -> Span | None:
    """Return the epochs that the name of a manifest says; None if it says none."""
    return _named(_MANIFEST, uri)


def is_unit(file: DataFile) -> bool:
    """Return whether *file* is a unit file of this package."""
    return file.partition[0] is None and _named(_DATA, file.file_path) is not None


def span_of(file: DataFile) -> Span:
    """Return the epochs of *file*.

    :raises Unavailable: neither its partition nor its name says them: another program has written it.
    """
    value = file.partition[0]
    if value is not None:
        return int(value), int(value)
    found = _named(_DATA, file.file_path)
    if found is None:
        raise Unavailable(
            f"{file.file_path} does not say its epochs.",
            next_step="`airflow epochs doctor` tells what another program has done to the table.",
            uri=file.file_path,
        )
    return found


@dataclass(frozen=True, slots=True)
class Removed:
    """Epochs that leave a table. :param barriers: theirs. :param stretches: of time, without a gap in each."""

    barriers: frozenset[int]
    stretches: tuple[Interval, ...] = ()

    @classmethod
    def of(cls, epochs: Sequence[Interval]) -> Removed:
        return cls(frozenset(micros(epoch.end) for epoch in epochs), merged(epochs))

    def meets(self, span: Span) -> bool:
        """Return whether one of them ends within *span*."""
        return any(span[0] <= barrier <= span[1] for barrier in self.barriers)

    def takes(self, file: DataFile) -> bool:
        """Return whether *file* leaves.

        :raises Unavailable: it has epochs that leave, and others that stay.
        """
        low, high = span_of(file)
        if low == high:
            return low in self.barriers
        if leaves_whole(from_micros(low), from_micros(high), self.stretches):
            return True
        if self.meets((low, high)):
            raise in_unit(file)
        return False


def in_unit(file: DataFile) -> Unavailable:
    """Build the error for an epoch that is to be replaced alone, and has its rows in the unit *file*."""
    low, high = (from_micros(barrier).isoformat() for barrier in span_of(file))
    return Unavailable(
        f"the epoch was compacted meanwhile: {file.file_path} has the rows of all epochs from {low} to {high}.",
        next_step="try again; if it goes on, `airflow epochs compact TABLE --undo` gives each epoch its own files.",
        uri=file.file_path,
    )


def overlaps(state: State, span: Span) -> bool:
    """Return whether an epoch of *state* may end within *span*."""
    if span[0] == span[1] or not state.kind.accumulates:
        return any(state.has(from_micros(barrier)) for barrier in span)
    return span[0] <= micros(state.barrier) and (state.low is None or micros(state.low) < span[1])


def may_have(state: State, bounds: Span) -> bool:
    """Return whether a manifest whose epochs lie within *bounds* may have files of *state*."""
    if not state.kind.accumulates:
        return bounds[0] <= micros(state.barrier) <= bounds[1]
    return bounds[0] <= micros(state.barrier) and (state.low is None or micros(state.low) < bounds[1])


def is_inside(state: State, span: Span) -> bool:
    """Return whether *state* has all epochs that end within *span*."""
    return all(state.has(from_micros(barrier)) for barrier in span)


def _named(pattern: re.Pattern[str], uri: str) -> Span | None:
    match = pattern.fullmatch(uri.rpartition("/")[2])
    return None if match is None else (int(match["low"]), int(match["high"]))
