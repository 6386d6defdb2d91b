"""Request for a cut: which barrier, and how much it may differ from what is newest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider.domain.errors import choice
from airflow_provider.domain.read_options import Align, Consistency, checked_lag
from airflow_provider.domain.staleness import checked_staleness

if TYPE_CHECKING:
    from airflow_provider.domain.session import Session


@dataclass(frozen=True, kw_only=True, slots=True)
class CutRequest:
    """Request for a cut; see :meth:`Cuts.cut`."""

    at: datetime | None = None
    align: Align = Align.EXACT
    max_lag: timedelta | None = None
    max_staleness: timedelta | None = None
    consistency: Consistency = Consistency.ROLLING
    session: Session | None = None


ROLLING = CutRequest()
"""A cut of the tables that are asked for, all at one barrier, however old."""


def cut_request(
    *,
    align: Align | str = Align.EXACT,
    max_lag: timedelta | None = None,
    max_staleness: timedelta | None = None,
    consistency: Consistency | str = Consistency.ROLLING,
) -> CutRequest:
    """Return the options of a cut; parameters as in :meth:`Cuts.cut`.

    :raises InvalidInput: an unknown word, or a duration that does not go with it.
    """
    aligned = choice(Align, align, "align")
    return CutRequest(
        align=aligned,
        max_lag=checked_lag(aligned, max_lag),
        max_staleness=checked_staleness(max_staleness),
        consistency=choice(Consistency, consistency, "consistency"),
    )


def as_plain_request(request: CutRequest) -> dict[str, Any]:
    """Return the options of *request* as JSON's own values, without those that have their default."""
    plain = {
        "align": str(request.align),
        "max_lag": None if request.max_lag is None else request.max_lag.total_seconds(),
        "max_staleness": None if request.max_staleness is None else request.max_staleness.total_seconds(),
        "consistency": str(request.consistency),
    }
    usual = {"align": "exact", "consistency": "rolling"}
    return {name: value for name, value in plain.items() if value != usual.get(name)}


def request_of_plain(plain: Mapping[str, Any]) -> CutRequest:
    """Return what :func:`as_plain_request` has made plain."""
    lag, age = plain.get("max_lag"), plain.get("max_staleness")
    return cut_request(
        align=plain.get("align", ROLLING.align),
        max_lag=None if lag is None else timedelta(seconds=lag),
        max_staleness=None if age is None else timedelta(seconds=age),
        consistency=plain.get("consistency", ROLLING.consistency),
    )
