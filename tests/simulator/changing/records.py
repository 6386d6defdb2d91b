"""What a domain that changes is remembered by: what epochs have read, and what attempts have reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from airflow_provider.domain.epoch import Provenance
from tests.simulator.changing.plan import Range

Visible = frozenset[tuple[datetime, int]]
"""Slices as (barrier, CSN)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HasRead:
    """What a committed epoch has read by an edge.

    :param copies: it is a skip, which copies one slice, visible or not. :param ignores: it minds no revision of them.
    """

    table: str
    range: Range
    slices: Visible
    copies: bool
    ignores: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Staged:
    """Output that an attempt has reported."""

    job: str
    start: datetime
    token: int
    uris: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What a job found: the inputs that its epoch recorded, and files."""

    job: str
    inputs: Mapping[str, Provenance]
    files: tuple[str, ...]
