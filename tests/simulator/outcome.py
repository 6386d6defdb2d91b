"""What one seed came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.simulator.events import Event


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What came of one seed.

    :param steps: calls of the store and the tables. :param faults: how many of them went wrong.
    :param epochs: epoch revisions that were published. :param trace: hash over all that happened.
    :param violation: the first invariant that did not hold, and how; empty when all did.
    """

    seed: int
    steps: int
    faults: int
    epochs: int
    events: Mapping[Event, int]
    seconds: float
    trace: str
    violation: str = ""
