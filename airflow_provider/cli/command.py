"""What all commands share: the connection, how they answer, and how they fail."""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from airflow.configuration import conf
from airflow.utils.cli import suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded
from rich.console import Console
from rich.table import Table

from airflow_provider.domain.errors import EpochError, InvalidInput
from airflow_provider.domain.identifiers import domain_name
from airflow_provider.domain.records import Kind
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.stores.base import MetadataReader, pages

Command = Callable[[Namespace], None]
_UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}


def command(function: Command) -> Command:
    """Make *function* a command: quiet logs, and errors as their message and exit code 1."""

    @functools.wraps(function)
    def run(arguments: Namespace) -> None:
        # Connections are looked up as the server does: the metadata database too, not only the environment.
        os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
        try:
            function(arguments)
        except EpochError as error:
            _fail(f"{type(error).__name__}: {error}")

    quiet: Command = suppress_logs_and_warning(providers_configuration_loaded(run))
    return quiet


def hook_of(arguments: Namespace) -> EpochsHook:
    """Return the hook of the connection that was named, or configured."""
    return EpochsHook(arguments.conn_id or conf.get("epochs", "conn_id"))


def known_sources(hook: EpochsHook, reader: MetadataReader, domain: str) -> dict[str, str]:
    """Return the databases that roots of *domain* name, as far as Airflow knows their connections here."""
    found: dict[str, str] = {}
    jobs = [one.record for one in pages(reader, domain_name(domain), Kind.JOB, "")]
    for source in {root.source for job in jobs for root in job.roots if root.source}:
        with suppress(EpochError):
            found.update(hook.get_sources([source]))
    return found


def answer_json(value: Any) -> None:
    """Print *value* as JSON, for programs."""
    sys.stdout.write(json.dumps(value, indent=2, default=str, ensure_ascii=False) + "\n")


def answer_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> None:
    """Print rows for people; what is None stays empty."""
    table = Table(title=title or None, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row))
    _console().print(table)


def answer_facts(facts: Mapping[str, object]) -> None:
    """Print one fact a line; what is empty is left out."""
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        if value not in (None, "", (), []):
            _console().print(f"{name.ljust(width)}  {value}", markup=False, highlight=False, soft_wrap=True)


def duration(text: str | None, field: str) -> timedelta | None:
    """Read a length of time such as ``90s``, ``15m``, ``6h`` or ``2d``.

    :raises InvalidInput: naming *field*.
    """
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text.strip())
    if found is None:
        raise InvalidInput(field=field, value=text, expected="a number and a unit: 90s, 15m, 6h, 2d")
    return int(found[1]) * _UNITS[found[2]]


def _console() -> Console:
    """A console that keeps whole lines when its output goes to a file or another program."""
    return Console() if sys.stdout.isatty() else Console(width=240)


def _fail(message: str) -> None:
    sys.stderr.write(f"{message}\n")
    raise SystemExit(1)
