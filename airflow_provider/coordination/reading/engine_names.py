"""Names of tables in engines that ignore case."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_provider.domain.errors import InvalidInput


def refuse_names_alike(names: Iterable[str]) -> None:
    """Refuse tables whose names differ in case alone: DuckDB and Spark keep the last one and read its rows for both.

    :raises InvalidInput: with the names.
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise InvalidInput(
                field="tables",
                value=sorted((other, name)),
                expected="names that differ in more than case: the engine takes these for one table",
                next_step="read the tables one by one.",
            )
