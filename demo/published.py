"""What the package's store says was published."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_provider import Settings
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


Epochs = Collection[tuple[str, datetime]]
"""By job and end."""


def published(settings: Settings, domain: str) -> Published:
    """Read a domain's commit sequence."""
    epochs: set[tuple[str, datetime]] = set()
    commits, first_at = 0, None
    for at, members in _commits(settings, domain):
        commits += 1
        first_at = first_at or at
        epochs.update(members)
    return Published(epochs=len(epochs), commits=commits, first_at=first_at)


def cuts_there(
    settings: Settings, domain: str, *, days: Sequence[datetime], a_day: int, besides: Collection[str]
) -> int:
    """Count the different cuts that a domain's readers could have read at some time.

    :param days: their ends: the barriers.
    :param a_day: epochs that a day's tables need of that day.
    :param besides: jobs of other tables.
    """
    return count_cuts((members for _, members in _commits(settings, domain)), days, a_day, besides)


def count_cuts(
    commits: Iterable[Epochs], days: Sequence[datetime], a_day: int, besides: Collection[str]
) -> int:
    """Count, over all commits, the days whose end could be read then: after a commit each is another cut."""
    missing = {end: a_day * number for number, end in enumerate(days, start=1)}
    seen: set[tuple[str, datetime]] = set()
    cuts = 0
    for members in commits:
        for job, end in set(members) - seen:
            for day in days:
                missing[day] -= job not in besides and end <= day
        seen.update(members)
        cuts += sum(not left for left in missing.values())
    return cuts


def _commits(settings: Settings, domain: str) -> Iterator[tuple[datetime, Epochs]]:
    """Each commit's time and epochs, in their order."""
    after = 0
    with open_store(settings.store_url) as store:
        while page := store.changes(DomainName(domain), after, limit=PAGE):
            for stamped in page:
                after = stamped.csn or after
                yield stamped.at, {(member.job, member.interval.end) for member in stamped.record.members}
