"""Collaborators of every operation, as one value: store, table formats, clock, randomness, settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random, SystemRandom
from typing import Self, TypeVar

from airflow_provider.coordination.retrying import retry
from airflow_provider.domain.clock import Clock, SystemClock
from airflow_provider.domain.defaults import DEFAULTS, Defaults
from airflow_provider.domain.errors import Conflict
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.stores.base import MetadataStore
from airflow_provider.tables.factory import TableFormats

Answer = TypeVar("Answer")

_CONTENDED_S = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """The collaborators of an operation; an operation is a function of a context and its request.

    :param clock: for waiting only; expiry is judged by the store's time.
    :param random: for pauses between tries and ids of requests.
    """

    store: MetadataStore
    formats: TableFormats
    clock: Clock
    random: Random
    defaults: Defaults
    # Of this process, and only a hint for publishers: nothing is decided by it, see docs/decisions/publish-queue.md.
    _contended_until: dict[DomainName, float] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        store: MetadataStore,
        formats: TableFormats,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        defaults: Defaults = DEFAULTS,
    ) -> Self:
        """Return a context with production defaults: the host's clock, and randomness that forks do not share."""
        return cls(
            store=store,
            formats=formats,
            clock=clock or SystemClock(),
            random=random or SystemRandom(),
            defaults=defaults,
        )

    def request_id(self) -> str:
        """Return a new id for a request: two requests never share a token, also after a fork."""
        return f"{self.random.getrandbits(128):032x}"

    def retry(self, operation: Callable[[], Answer], lost: Conflict | None = None) -> Answer:
        """Run *operation*, again after a lost reply; with *lost*, also after a lost race: :func:`~.retrying.retry`."""
        return retry(
            operation,
            clock=self.clock,
            random=self.random,
            timeout=self.defaults.unknown_outcome_timeout,
            lost=lost,
        )

    def note_contention(self, domain: DomainName) -> None:
        """Remember that another publisher was faster in *domain* at this moment."""
        self._contended_until[domain] = self.clock.monotonic() + _CONTENDED_S

    def is_contended(self, domain: DomainName) -> bool:
        """Return True if that was less than a second ago: the next publish then starts in the publish queue."""
        return self.clock.monotonic() < self._contended_until.get(domain, 0.0)
