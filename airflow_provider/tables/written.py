"""Data files that were written, and not published yet: plain values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenFile:
    """Data file as described by the task that wrote it; plain values, so that Spark can serialise it.

    :param checksum: hash of the file's bytes, taken while writing.
    :param description: what the format needs to register the file (Iceberg: partition and column statistics, JSON).
    """

    uri: str
    size_bytes: int
    rows: int
    checksum: str
    description: str


Group = tuple[datetime, datetime]
"""Least and greatest barrier of epochs whose rows come together; equal for an epoch that gets files of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Regrouped:
    """The same rows in other files: what a commit of a compaction takes out of a table, and what it puts there.

    :param replaces: URIs of the files that leave. :param files: those that come, each with its group.
    :param beside: URIs of files between them that stay as they are.
    :param spec_id: layout of files of one epoch; units have the same without the epoch.
    :param schema_id: the columns with which the rows were written: those of the table at the commit.
    """

    replaces: tuple[str, ...]
    files: tuple[tuple[Group, WrittenFile], ...]
    low: datetime
    high: datetime
    spec_id: int
    schema_id: int
    rows: int
    beside: frozenset[str] = frozenset()
