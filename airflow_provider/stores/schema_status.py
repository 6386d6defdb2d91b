"""How a database's schema stands to the one that this version of the package needs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from airflow_provider.domain.errors import StoreIncompatible


class Fit(StrEnum):
    """How a database's schema stands to the one that this version of the package needs."""

    CURRENT = "current"
    EMPTY = "empty"
    """The database has no tables at all."""
    ABSENT = "absent"
    """The database has tables, and none of the store's."""
    OLDER = "older"
    NEWER = "newer"


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaStatus:
    """What a database has. Revisions are Alembic's; ``found`` is None when the store has no schema yet."""

    location: str
    fit: Fit
    found: str | None
    expected: str

    def require_current(self) -> None:
        """:raises StoreIncompatible: the schema is not the one that is needed; says what to run."""
        if self.fit is Fit.CURRENT:
            return
        raise StoreIncompatible(
            f"{self.location}: {_PROBLEMS[self.fit].format(self)}",
            next_step=_NEXT_STEPS[self.fit],
            store=self.location,
            found=self.found,
            expected=self.expected,
            fit=self.fit,
        )


_PROBLEMS = {
    Fit.EMPTY: "the database has no schema yet; this version of the package needs revision {0.expected}.",
    Fit.ABSENT: "the database has other tables and none of the store's; revision {0.expected} is needed.",
    Fit.OLDER: "the schema has the revision {0.found}; this version of the package needs {0.expected}.",
    Fit.NEWER: "the schema has the revision {0.found}, which this version of the package does not know; "
    "it knows up to {0.expected}.",
}
_NEXT_STEPS = {
    Fit.EMPTY: "run `airflow epochs db upgrade`.",
    Fit.ABSENT: "check that this is the database you mean; then run `airflow epochs db upgrade`.",
    Fit.OLDER: "stop what uses the store, make a backup, and run `airflow epochs db upgrade`.",
    Fit.NEWER: "upgrade the package on this host to the version that made the schema.",
}
