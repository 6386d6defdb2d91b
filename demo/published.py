"""What the package's store says was published."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from airflow_provider.coordination.service import Settings
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.stores.factory import open_store

PAGE = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """Epochs that were published.

    :param epochs: number of distinct epochs.
    :param commits: number of commits; more than *epochs* when one was published again.
    :param first_at: when the first became visible; None when nothing did.
    """

    epochs: int
    commits: int
    first_at: datetime | None


def published(settings: Settings, domain: str) -> Published:
    """Read a domain's commit sequence."""
    epochs: set[tuple[str, datetime]] = set()
    commits, first_at, after = 0, None, 0
    with open_store(settings.store_url) as store:
        while page := store.changes(DomainName(domain), after, limit=PAGE):
            for stamped in page:
                commits += 1
                after = stamped.csn or after
                first_at = first_at or stamped.at
                epochs.update((member.job, member.interval.end) for member in stamped.record.members)
    return Published(epochs=len(epochs), commits=commits, first_at=first_at)
