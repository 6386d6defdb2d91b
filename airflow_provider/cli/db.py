"""``airflow epochs db check`` and ``airflow epochs db upgrade``."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from airflow_provider.cli.answer import answer, facts
from airflow_provider.cli.command import command, hook_of
from airflow_provider.coordination.commits.pointers import tables_ahead
from airflow_provider.domain.errors import StoreIncompatible
from airflow_provider.stores.factory import check_schema, new_incarnation, redacted, upgrade_schema
from airflow_provider.tables.errors import TablesAhead
from airflow_provider.tables.factory import check_catalog, make_catalog

if TYPE_CHECKING:
    from airflow_provider.stores.schema_status import SchemaStatus


@command
def check(arguments: Namespace) -> None:
    """Compare the store's schema with this version of the package.

    :raises StoreIncompatible: they do not fit; a deployment's script sees exit code 1.
    """
    settings = hook_of(arguments).get_settings()
    found = check_schema(settings.store_url)
    catalog = None if settings.catalog_url is None else check_catalog(settings.catalog_url)
    _answer(arguments, found, catalog)
    if found is not None:
        found.require_usable()
    if catalog is False:
        raise StoreIncompatible(
            f"{redacted(settings.catalog_url)} has no Iceberg catalog yet.",
            next_step="`airflow epochs db upgrade`, as a user who may make tables there.",
        )


@command
def upgrade(arguments: Namespace) -> None:
    """Create or upgrade the store's schema, and the tables of a catalog in another database."""
    settings = hook_of(arguments).get_settings()
    if settings.catalog_url is not None:
        make_catalog(settings.catalog_url)
    _answer(arguments, upgrade_schema(settings.store_url), None if settings.catalog_url is None else True)


@command
def restored(arguments: Namespace) -> None:
    """Give the store a new incarnation, and list the tables that are ahead of it.

    :raises TablesAhead: a table is ahead; a script sees exit code 1.
    """
    hook = hook_of(arguments)
    incarnation = new_incarnation(hook.get_settings().store_url)
    with hook.get_conn(create=False) as service:
        found = tables_ahead(service.store, service.formats)
    beyond = [f"{table.uri} at CSN {version.csn} (recorded: {place})" for table, version, place in found]
    told = {"incarnation": incarnation, "ahead": beyond}
    answer(arguments, told, facts({"incarnation": incarnation, "ahead of the store": beyond}))
    if beyond:
        raise TablesAhead(
            f"{len(beyond)} tables are ahead of the store.",
            next_step="restore a newer backup of the store, or let the catalog's pointers name what it recorded; "
            "jobs of these tables cannot begin before.",
            tables=tuple(table.uri for table, _, _ in found),
        )


def _answer(arguments: Namespace, found: SchemaStatus | None, catalog: bool | None) -> None:
    told: dict[str, object] = {"schema": "none needed"}
    if found is not None:
        told = {
            "store": found.location,
            "schema": found.fit.value,
            "found": found.found or "none",
            "expected": found.expected,
            "record format": str(found.format),
        }
    if catalog is not None:
        told["catalog"] = "current" if catalog else "absent"
    answer(arguments, told, facts(told))
