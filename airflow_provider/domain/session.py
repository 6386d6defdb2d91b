"""Sessions: the states that a reader has seen, so that no later cut is older (R20). Pure values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol, TypeVar

from airflow_provider.domain.cut import State
from airflow_provider.domain.epoch import Published
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.identifiers import DomainName, TableName, domain_name, table_name
from airflow_provider.domain.interval import as_utc
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.rollback import Rollback

Kept = TypeVar("Kept", str, int)

MOST_EARLIER = 20
"""Maximum number of earlier CSNs that a session keeps of each table. Each cut that it asks for looks at all of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """The highest state of one table that a session has seen.

    :param earlier: CSNs at which it has seen the table before, oldest first: the rows of a later one, such as those of
        a commit of its own, do not make up for rows that were taken back in between.
    """

    csn: int
    barrier: datetime
    earlier: tuple[int, ...] = ()

    @property
    def csns(self) -> tuple[int, ...]:
        """The CSNs at which the session has seen the table, oldest first."""
        return (*self.earlier, self.csn)

    def and_then(self, later: Seen) -> Seen:
        """Return what the session has seen once it has seen *later*, too."""
        csns = sorted({*self.csns, *later.csns})
        return Seen(
            csn=csns[-1],
            barrier=max(self.barrier, later.barrier),
            earlier=tuple(csns[:-1][-MOST_EARLIER:]),
        )


class SeenCut(Protocol):
    """The parts of a cut that a session keeps, in whichever form the reader holds the cut."""

    @property
    def domain(self) -> DomainName: ...

    @property
    def incarnation(self) -> str: ...

    @property
    def csn(self) -> int: ...

    @property
    def states(self) -> Mapping[TableName, State]: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """The states of a domain that a reader has seen. A value: each cut makes the next one (:meth:`after`).

    :param incarnation: of the store that was seen first; empty before. Cuts of another incarnation are refused.
    :param csn: highest CSN seen, of any table; no later cut is older, also of tables that were not read yet.
    """

    domain: DomainName
    incarnation: str = ""
    seen: Mapping[TableName, Seen] = field(default_factory=dict)
    csn: int = 0

    @classmethod
    def of(cls, domain: str) -> Session:
        """Return a new session, which has seen no state."""
        return cls(domain=domain_name(domain))

    def after(self, cut: SeenCut) -> Session:
        """Return the session after *cut* was read.

        :raises InvalidInput: a cut of another domain.
        """
        self._check_domain(cut.domain)
        seen = {name: Seen(csn=cut.csn, barrier=state.barrier) for name, state in cut.states.items()}
        return self._having(cut.incarnation, seen, cut.csn)

    def committed(self, published: Published) -> Session:
        """Return the session after a commit of its own: later cuts have its rows.

        :raises InvalidInput: a commit of another domain.
        """
        self._check_domain(published.domain)
        own = Seen(csn=published.csn, barrier=published.interval.end)
        return self._having(published.incarnation, {name: own for name, _ in published.tables}, published.csn)

    def _having(self, incarnation: str, seen: Mapping[TableName, Seen], csn: int) -> Session:
        first = self.incarnation or incarnation
        return replace(self, incarnation=first, seen=self._with(seen), csn=max(self.csn, csn))

    def reborn(self, born: Mapping[TableName, int]) -> tuple[TableName, ...]:
        """Return the tables that the session has seen before another table got their name, sorted.

        :param born: CSN of the commit that dropped the table which had the name before; 0 if none had it.
        """
        return tuple(sorted(name for name, seen in self.seen.items() if seen.csns[0] < born.get(name, 0)))

    def taken_back(self, rollbacks: Iterable[Rollback]) -> tuple[tuple[TableName, int], ...]:
        """Return the tables of which the session may have seen rows that were taken back since, with the first CSN."""
        known = list(rollbacks)
        first: dict[TableName, int] = {}
        for name, seen in sorted(self.seen.items()):
            for csn in seen.csns:
                if any(rollback.has_taken(name, csn) for rollback in known):
                    first.setdefault(name, csn)
        return tuple(first.items())

    def behind(self, csn: int, barriers: Mapping[TableName, datetime]) -> tuple[Missing, ...]:
        """Return the tables that a cut at *csn* and *barriers* would show older than seen, with the reason.

        Rows of one table may stem from a commit of another that was seen: no table is read below the session's CSN.
        """
        found = []
        for name, barrier in sorted(barriers.items()):
            seen = self.seen.get(name, Seen(csn=0, barrier=barrier))
            if csn < self.csn or barrier < seen.barrier:
                had = f"{seen.barrier.isoformat()} at CSN {seen.csn}" if seen.csn else f"CSN {self.csn}"
                reason = f"this session has seen {had}, and the cut has {barrier.isoformat()} at CSN {csn}"
                found.append(Missing(name=name, watermark=barrier, wanted=seen.barrier, reason=reason))
        return tuple(found)

    def text(self) -> str:
        """Return the session as text, to store between two programs; :meth:`parse` reads it."""
        seen = {name: [state.csn, state.barrier.isoformat()] for name, state in sorted(self.seen.items())}
        facts = {"domain": self.domain, "incarnation": self.incarnation, "csn": self.csn, "seen": seen}
        earlier = {name: state.earlier for name, state in sorted(self.seen.items()) if state.earlier}
        # Apart from the rest: earlier versions of the package read the text, too.
        return json.dumps({**facts, "earlier": earlier} if earlier else facts)

    @classmethod
    def parse(cls, text: str) -> Session:
        """Return the session that :meth:`text` wrote.

        :raises InvalidInput: not such text.
        """
        try:
            found = json.loads(text)
            earlier = found.get("earlier", {})
            seen = {
                table_name(name): Seen(
                    csn=_checked(csn, int),
                    barrier=as_utc(datetime.fromisoformat(at), "barrier"),
                    earlier=tuple(_checked(known, int) for known in earlier.get(name, ())),
                )
                for name, (csn, at) in found["seen"].items()
            }
            # Texts of earlier versions name no CSN of their own.
            highest = max((state.csn for state in seen.values()), default=0)
            return cls(
                domain=domain_name(found["domain"]),
                incarnation=_checked(found["incarnation"], str),
                seen=seen,
                csn=max(_checked(found.get("csn", highest), int), highest),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidInput(
                field="session", value=text, expected="the text of a session, as Session.text() gives it"
            ) from error

    def _with(self, seen: Mapping[TableName, Seen]) -> dict[TableName, Seen]:
        merged = dict(self.seen)
        for name, state in seen.items():
            merged[name] = merged.get(name, state).and_then(state)
        return merged

    def _check_domain(self, domain: DomainName) -> None:
        if domain != self.domain:
            raise InvalidInput(
                field="domain",
                value=domain,
                expected=f"{self.domain!r}, the domain of the session",
                next_step="keep a session for each domain.",
            )


def _checked(value: object, kind: type[Kept]) -> Kept:
    """Return *value*.

    :raises TypeError: not of the type that :meth:`Session.text` writes.
    """
    if type(value) is not kind:
        raise TypeError(f"{kind.__name__} expected")
    return value
