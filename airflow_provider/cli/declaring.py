"""Parts of which :mod:`airflow_provider.cli.definition` is made; imports nothing of the package, either."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

from airflow.cli.cli_config import ActionCommand, Arg, lazy_load_command

_WIDTH = 79
_OPTION_WIDTH = _WIDTH - 24
"""Width of an option's help, which argparse begins in column 24."""


def argument(*flags: str, help: str, **options: Any) -> Arg:  # noqa: A002 - argparse's word
    """Return an argument whose help fits into 80 columns."""
    return Arg(flags, help=textwrap.fill(help, _OPTION_WIDTH), **options)


def subcommand(name: str, help: str, args: tuple[Arg, ...], *, calls: str, more: str = "") -> ActionCommand:  # noqa: A002
    """Return a command that calls a function of this package; *more* follows its help in ``-h``."""
    function: Callable[..., Any] = lazy_load_command(f"airflow_provider.cli.{calls}")
    description = "\n\n".join(textwrap.fill(part, _WIDTH) for part in (f"{help}.", more) if part)
    return ActionCommand(name=name, help=help, func=function, args=args, description=description)


ARG_CONN_ID = argument(
    "--conn-id",
    help="connection of the metadata store; default: option conn_id of section epochs",
    default=None,
)
ARG_DOMAIN = argument("--domain", help="domain of the jobs and tables; default: default", default="default")
