"""Compare a store's schema with the one that this version of the package needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from airflow_provider.domain.errors import PackageTooOld, StoreIncompatible
from airflow_provider.domain.format_marks import FORMAT


class Fit(StrEnum):
    """Result of comparing a store's schema with the one that this version of the package needs."""

    CURRENT = "current"
    EMPTY = "empty"
    """The database has no tables at all."""
    ABSENT = "absent"
    """The database has tables, and none of the store's."""
    UPGRADABLE = "upgradable"
    """The schema has an older format. This version works with it until every host has this version, too.

    See docs/decisions/rolling-upgrade.md.
    """
    NEWER = "newer"


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaStatus:
    """Schema of a store. Revisions are Alembic's (on ZooKeeper, layouts); ``found`` is None if there is no schema yet.

    :param format: format of the store's records; fields of a later one are refused until the schema is upgraded.
    """

    location: str
    fit: Fit
    found: str | None
    expected: str
    format: int = FORMAT

    @classmethod
    def of(cls, location: str, found: str | None, revisions: Sequence[str], *, empty: bool) -> SchemaStatus:
        """Compare the revision *found* with all released *revisions*: each came with a record format, from 1 on.

        :param empty: the database holds nothing else either.
        """
        if found is None:
            fit = Fit.EMPTY if empty else Fit.ABSENT
        elif found == revisions[-1]:
            fit = Fit.CURRENT
        else:
            fit = Fit.UPGRADABLE if found in revisions else Fit.NEWER
        number = revisions.index(found) + 1 if found in revisions else FORMAT
        return cls(location=location, fit=fit, found=found, expected=revisions[-1], format=number)

    def require_current(self) -> None:
        """Require the newest schema.

        :raises PackageTooOld: the schema is newer than this version of the package.
        :raises StoreIncompatible: there is no schema, or an older one; says what to run.
        """
        if self.fit is not Fit.CURRENT:
            raise self._misfit()

    def require_usable(self) -> None:
        """Refuse a schema that this version of the package cannot work with.

        :raises PackageTooOld: the schema is newer than this version of the package.
        :raises StoreIncompatible: there is no schema; says what to run.
        """
        if self.fit not in (Fit.CURRENT, Fit.UPGRADABLE):
            raise self._misfit()

    def _misfit(self) -> StoreIncompatible | PackageTooOld:
        kind = PackageTooOld if self.fit is Fit.NEWER else StoreIncompatible
        return kind(
            f"{self.location}: {_PROBLEMS[self.fit].format(self)}",
            next_step=_NEXT_STEPS[self.fit],
            store=self.location,
            found=self.found or "",
            expected=self.expected,
        )


_PROBLEMS = {
    Fit.EMPTY: "the database has no schema yet; this version of the package needs revision {0.expected}.",
    Fit.ABSENT: "the database has other tables and none of the store's; revision {0.expected} is needed.",
    Fit.UPGRADABLE: "the schema has the revision {0.found}, with which this version of the package works; its own is "
    "{0.expected}.",
    Fit.NEWER: "the schema has the revision {0.found}, which this version of the package does not know; "
    "it knows up to {0.expected}.",
}
_NEXT_STEPS = {
    Fit.EMPTY: "run `airflow epochs db upgrade`.",
    Fit.ABSENT: "check that this is the database you mean; then run `airflow epochs db upgrade`.",
    Fit.UPGRADABLE: "once every host has this version, make a backup and run `airflow epochs db upgrade`.",
    Fit.NEWER: "upgrade the package on this host to the version that made the schema; a task may be tried again on "
    "a host that has it.",
}
