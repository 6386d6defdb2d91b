"""Common parts of all commands: the connection, and errors."""

from __future__ import annotations

import functools
import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from shlex import quote

from airflow.configuration import conf
from airflow.utils.cli import suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_provider.cli.declaring import ARG_DOMAIN
from airflow_provider.domain.errors import EpochError
from airflow_provider.domain.identifiers import domain_name
from airflow_provider.domain.registration import JobRecord
from airflow_provider.hooks.epochs import EpochsHook
from airflow_provider.stores.base import MetadataReader, pages

Command = Callable[[Namespace], None]

_COMMAND = re.compile(r"`(airflow epochs (?!db\b|check\b|serve\b)[a-z][^`]*)`")
"""Commands in messages, but for those that are for a whole store, or none."""


def command(function: Command) -> Command:
    """Make *function* a command: it logs nothing, and an error becomes its message and exit code 1."""

    @functools.wraps(function)
    def run(arguments: Namespace) -> None:
        # Airflow then looks connections up as its server does: in its database, too, not only in the environment.
        os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"
        try:
            function(arguments)
        except EpochError as error:
            _fail(f"{type(error).__name__}: {addressed(str(error), arguments)}")

    quiet: Command = suppress_logs_and_warning(providers_configuration_loaded(run))
    return quiet


def addressed(text: str, arguments: Namespace) -> str:
    """Return *text*, whose commands are for the domain and the connection of this command, as they are to be typed."""
    domain, conn_id = getattr(arguments, "domain", None), getattr(arguments, "conn_id", None)
    given = {"--domain": None if domain == ARG_DOMAIN.kwargs["default"] else domain, "--conn-id": conn_id}
    # A backtick would end the command, as messages show it.
    options = {name: quote(value) for name, value in given.items() if value and "`" not in value}

    def typed(match: re.Match[str]) -> str:
        lacking = (f" {name} {value}" for name, value in options.items() if name not in match[1])
        return f"`{match[1]}{''.join(lacking)}`"

    return _COMMAND.sub(typed, text)


def hook_of(arguments: Namespace) -> EpochsHook:
    """Return the hook of the connection in ``--conn-id``, otherwise of the one in ``[epochs] conn_id``."""
    return EpochsHook(arguments.conn_id or conf.get("epochs", "conn_id"))


def known_connections(hook: EpochsHook, reader: MetadataReader, domain: str) -> dict[str, str]:
    """Return the database URLs of the sources of *domain*, by connection; without those that Airflow does not know."""
    found: dict[str, str] = {}
    jobs = [stamped.record for stamped in pages(reader, domain_name(domain), JobRecord)]
    for connection in {source.connection for job in jobs for source in job.sources if source.connection}:
        with suppress(EpochError):
            found.update(hook.connection_urls([connection]))
    return found


def _fail(message: str) -> None:
    sys.stderr.write(f"{message}\n")
    raise SystemExit(1)
