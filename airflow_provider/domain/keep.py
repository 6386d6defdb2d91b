"""Which states of full tables stay: the newest ones, and one for each of the last intervals of some calendars (R25)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Self

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import Cadence

MOST_KEPT = 10_000
"""Largest number of states of one rule."""
_FEWEST = 2
_LONGEST = timedelta(days=365 * 1_000)
"""Longest time that the barriers of one calendar reach back."""
_SOME_TIME = datetime(2024, 1, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Keep:
    """States that stay; all others of a full table are expired.

    Of each calendar in *each* the last so many barriers count, back from the newest barrier of the domain, so that one
    that stands still loses nothing. A table keeps its newest state at each of them: a cut there has all tables, also
    those with longer epochs.

    :param newest: number of newest states of each table that stay, at least 2.
    :param each: number of barriers by calendar: ``{"@daily": 30, "@monthly": 24}``; at most those of 1,000 years. A
        calendar is a :class:`Cadence`, or the expression of one in UTC.
    """

    newest: int = _FEWEST
    each: Mapping[str | Cadence, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check("newest", self.newest, _FEWEST)
        for calendar, number in self.each.items():
            if not isinstance(calendar, str | Cadence):
                raise InvalidInput(field="each", value=calendar, expected="a calendar such as '@daily'")
            _check(f"each[{str(calendar)!r}]", number, 1)
        for name, (calendar, number) in zip(self.each, self._calendars(), strict=True):
            _refuse_too_early(f"each[{str(name)!r}]", calendar, number)

    @classmethod
    def parsed(cls, newest: str, each: Sequence[str]) -> Self:
        """Return what a command line says. :param each: texts such as ``@daily=30``.

        :raises InvalidInput: names the text.
        """
        found: dict[str | Cadence, int] = {}
        for text in each:
            calendar, separator, number = text.rpartition("=")
            if not separator or not number.isdecimal():
                raise InvalidInput(
                    field="--each", value=text, expected="a calendar and a number, such as @daily=30"
                )
            found[calendar] = int(number)
        if not newest.isdecimal():
            raise InvalidInput(field="--newest", value=newest, expected=f"a number from {_FEWEST} on")
        return cls(newest=int(newest), each=found)

    def moments(self, newest: datetime) -> list[datetime]:
        """Return the barriers of the calendars that count, earliest first. :param newest: barrier of the domain."""
        found = set[datetime]()
        for calendar, number in self._calendars():
            moment = calendar.floor(newest)
            for _ in range(number):
                found.add(moment)
                moment = calendar.last_before(moment)
        return sorted(found)

    def kept(self, barriers: Sequence[datetime], moments: Sequence[datetime]) -> set[datetime]:
        """Return those of a table's *barriers*, earliest first, whose states stay. :param moments: :meth:`moments`."""
        places = (bisect_right(barriers, moment) for moment in moments)
        return {*barriers[-self.newest :], *(barriers[place - 1] for place in places if place)}

    def _calendars(self) -> Iterator[tuple[Cadence, int]]:
        for calendar, number in self.each.items():
            yield calendar if isinstance(calendar, Cadence) else Cadence(calendar), number


def _refuse_too_early(name: str, calendar: Cadence, number: int) -> None:
    """:raises InvalidInput: *number* barriers of *calendar* reach back further than 1,000 years."""
    last = calendar.floor(_SOME_TIME)
    period = last - calendar.last_before(last)
    if number * period > _LONGEST:
        raise InvalidInput(
            field=name,
            value=number,
            expected=f"a number from 1 to {max(1, _LONGEST // period)}: so many barriers of this calendar are "
            f"{_LONGEST.days // 365} years",
        )


def _check(name: str, number: object, fewest: int) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or not fewest <= number <= MOST_KEPT:
        raise InvalidInput(field=name, value=number, expected=f"a number from {fewest} to {MOST_KEPT}")
