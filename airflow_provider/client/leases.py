"""Leases with methods: a cut that stays readable, for a ``with`` block or for longer."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from airflow_provider.client.cuts import ReadableCut, names_within
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.identifiers import LeaseId
from airflow_provider.domain.lease import Lease
from airflow_provider.domain.topology import Table


class HeldLease:
    """A claim on :attr:`cut`, which keeps it readable until :attr:`until`.

    The end of a ``with`` block drops the lease. If the block raised and the caller named an owner, the lease stays
    until its time is over: the retry asks by the same name and owner, and reads the same cut. A lease that others made,
    such as a sensor, stays in any case.
    """

    def __init__(
        self, service: EpochService, record: Lease, *, for_retries: bool, of_others: bool = False
    ) -> None:
        self._service = service
        self._for_retries = for_retries
        self._of_others = of_others
        self.record = record

    @property
    def cut(self) -> ReadableCut:
        """The cut that the lease holds."""
        return ReadableCut(self._service, self.record.cut)

    @property
    def name(self) -> LeaseId:
        """Name of the lease, unique in its domain."""
        return self.record.id

    @property
    def owner(self) -> str:
        """Owner of the lease: the same name and owner get the same cut again."""
        return self.record.owner

    @property
    def until(self) -> datetime:
        """Time, by the store's clock, at which the lease ends, unless it is renewed."""
        return self.record.until

    def renew(self, ttl: timedelta | None = None) -> None:
        """Extend the lease to *ttl* from now; never shortens it.

        :param ttl: the default is ``lease_ttl``.
        :raises LeaseExpired: it has ended; files of its cut may be gone.
        """
        self.record = self._service.leases.renew(self.record, ttl)

    def release(self, tables: Iterable[str | Table]) -> None:
        """Release *tables*; the lease holds the others as long as before. Without any table the lease ends.

        :raises LeaseExpired: it has ended.
        """
        names = names_within(self.record.cut.domain, tables)
        left = self._service.leases.release(self.record, names)
        self.record = self.record if left is None else left

    def drop(self) -> None:
        """End the lease now; does nothing if it has ended."""
        self._service.leases.drop(self.record)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._of_others and (error is None or not self._for_retries):
            self.drop()

    def __repr__(self) -> str:
        return f"<lease {self.name!r} of {self.owner!r} until {self.until.isoformat()}>"
