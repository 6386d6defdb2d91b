"""Retries of reads while a store does not answer for a moment: it restarts, or elects another leader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random, SystemRandom
from typing import Any, TypeVar

from airflow_provider.coordination.retrying import retry
from airflow_provider.domain.clock import Clock, SystemClock
from airflow_provider.domain.defaults import DEFAULTS, Defaults
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind, Stamped
from airflow_provider.domain.version import CommitRecord
from airflow_provider.stores.base import MetadataReader, Reading

Answer = TypeVar("Answer")


class RetryingReader(MetadataReader):
    """Reading side of a store that repeats each call while the store does not answer.

    Reads change nothing, so that a repetition is always safe.

    :param timeout: of each call with its repetitions, then
        :class:`~airflow_provider.domain.errors.StoreUnavailable` reaches the caller.
    :param clock: for the pauses between. :param random: for their length.
    """

    def __init__(
        self,
        inner: MetadataReader,
        *,
        timeout: timedelta,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        self.capabilities = inner.capabilities
        self._inner = inner
        self._timeout = timeout
        self._clock = clock or SystemClock()
        self._random = random or SystemRandom()

    @property
    def format(self) -> int:
        return self._inner.format

    def read(self, domain: DomainName, keys: Sequence[Key[Any]], *, pointers: Sequence[str] = ()) -> Reading:
        return self._ask(lambda: self._inner.read(domain, keys, pointers=pointers))

    def scan(
        self,
        domain: DomainName,
        kind: Kind,
        partition: str,
        *,
        start: str | None = None,
        end: str | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[Stamped[Any]]:
        return self._ask(
            lambda: self._inner.scan(
                domain, kind, partition, start=start, end=end, limit=limit, reverse=reverse
            )
        )

    def changes(self, domain: DomainName, after: int, *, limit: int = 1000) -> list[Stamped[CommitRecord]]:
        return self._ask(lambda: self._inner.changes(domain, after, limit=limit))

    def domains(self) -> list[DomainName]:
        return self._ask(self._inner.domains)

    def watch(self, domain: DomainName, after: int, timeout: timedelta) -> int:
        return self._ask(lambda: self._inner.watch(domain, after, timeout))

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        return retry(question, clock=self._clock, random=self._random, timeout=self._timeout)


def retrying_reader(
    reader: MetadataReader,
    *,
    clock: Clock | None = None,
    random: Random | None = None,
    defaults: Defaults = DEFAULTS,
) -> MetadataReader:
    """Return *reader* with the timeout of *defaults*; a reader that retries already is returned unchanged."""
    if isinstance(reader, RetryingReader):
        return reader
    return RetryingReader(reader, timeout=defaults.read_timeout, clock=clock, random=random)
