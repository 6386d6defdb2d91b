"""Provider of bounds for sources without recorded ones (I11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.source_bounds import BoundsRequest, Source, SourceBounds


class BoundsProvider(Protocol):
    """Provider of bounds: begin asks it last, once all other checks allow the attempt, and again after a lost race."""

    def bounds(self, asked: BoundsRequest) -> SourceBounds:
        """Return the bounds of the present data, from the end of the barrier before to the begin of the one after.

        :raises NotReady: the data has not arrived. :raises SourceUnavailable: the source does not answer.
        :raises Unavailable: data recorded at the barrier before is missing or has grown.
        """

    def holds(self, asked: BoundsRequest, recorded: SourceBounds) -> bool:
        """Return True if *recorded* still matches the source.

        :raises Unavailable: data came late, and is refused.
        """

    def check_unchanged(self, source: Source, bounds: SourceBounds) -> None:
        """Refuse data within *bounds* that differs from the recorded one.

        :raises Unavailable: with the file or the ids.
        """

    def check_there(self, source: Source, bounds: SourceBounds) -> None:
        """Refuse data within *bounds* that is gone; a file that was replaced by another of its name is there.

        :raises Unavailable: with the file or the ids.
        """


@dataclass(frozen=True, slots=True)
class Proposed:
    """Provider of known bounds, by the names of their sources."""

    known: Mapping[str, SourceBounds]

    def bounds(self, asked: BoundsRequest) -> SourceBounds:
        """Return the known bounds of the source.

        :raises InvalidInput: there are none.
        """
        name = asked.source.name
        proposed = self.known.get(name)
        if proposed is None or proposed.source != name:
            raise InvalidInput(
                field="sources",
                value=sorted(self.known) if proposed is None else proposed.source,
                expected=f"bounds of the source {name!r}",
                next_step="let sources.readers.SourceReaders ask for them at begin.",
            )
        return proposed

    def holds(self, asked: BoundsRequest, recorded: SourceBounds) -> bool:  # noqa: ARG002
        """Return True: known bounds hold."""
        return True

    def check_unchanged(self, source: Source, bounds: SourceBounds) -> None:
        """Do nothing: known bounds hold."""

    def check_there(self, source: Source, bounds: SourceBounds) -> None:
        """Do nothing: known bounds hold."""


def as_provider(sources: BoundsProvider | Mapping[str, SourceBounds] | None) -> BoundsProvider:
    """Return *sources* as a provider; known bounds need no source."""
    return Proposed(sources or {}) if sources is None or isinstance(sources, Mapping) else sources
