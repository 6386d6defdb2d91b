"""``airflow epochs db move``."""

from __future__ import annotations

from argparse import Namespace

from airflow_provider.cli.answer import answer, facts
from airflow_provider.cli.command import command
from airflow_provider.coordination.service import EpochService
from airflow_provider.coordination.upkeep.move import move_domain
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.stores.factory import redacted


@command
def move(arguments: Namespace) -> None:
    """Move a domain from one store to another.

    :raises InvalidInput: the connections name different warehouses, without ``--warehouse``.
    """
    settings = [EpochsHook(name).get_settings() for name in (arguments.source, arguments.target)]
    if settings[0].warehouse != settings[1].warehouse and not arguments.warehouse:
        raise InvalidInput(
            field=f"warehouse of connection {arguments.target}",
            value=settings[1].warehouse,
            expected=f"{settings[0].warehouse}, as connection {arguments.source} has it",
            next_step="the move takes records and pointers, no files: let both name the same warehouse; or copy the "
            "files to the other one and add --warehouse.",
        )
    with EpochService.open(settings[0]) as source, EpochService.open(settings[1]) as target:
        moved = move_domain(
            source.context,
            target.context,
            arguments.domain,
            source_place=redacted(settings[0].store_url),
            target_place=redacted(settings[1].store_url),
            warehouse=arguments.warehouse,
        )
    told = {
        "domain": moved.domain,
        "moved to": redacted(settings[1].store_url),
        "CSN": moved.csn,
        "records": moved.records,
        "tables": list(moved.tables),
    }
    answer(arguments, told, facts({**told, "tables": ", ".join(moved.tables)}))
