"""``airflow epochs db check`` and ``airflow epochs db upgrade``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_provider.cli.command import answer_facts, answer_json, command, hook_of
from airflow_provider.stores.factory import check_schema, upgrade_schema

if TYPE_CHECKING:
    from airflow_provider.stores.schema_status import SchemaStatus


@command
def check(arguments: Namespace) -> None:
    """Say whether the store's schema fits this version of the package.

    :raises StoreIncompatible: it does not, so that a deployment's script sees exit code 1.
    """
    found = _answer(arguments, check_schema)
    if found is not None:
        found.require_current()


@command
def upgrade(arguments: Namespace) -> None:
    """Make or upgrade the store's schema."""
    _answer(arguments, upgrade_schema)


def _answer(arguments: Namespace, ask: Callable[[str], SchemaStatus | None]) -> SchemaStatus | None:
    found = ask(hook_of(arguments).get_settings().store_url)
    facts = {"schema": "none needed"}
    if found is not None:
        facts = {
            "store": found.location,
            "schema": found.fit.value,
            "found": found.found or "none",
            "expected": found.expected,
        }
    if arguments.output == "json":
        answer_json(facts)
    else:
        answer_facts(facts)
    return found
