"""Parts of which :mod:`airflow_provider.cli.definition` is made; imports nothing of the package, either."""

from __future__ import annotations

import textwrap
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import Any

from airflow.cli.cli_config import ActionCommand, Arg, lazy_load_command

_WIDTH = 79
_OPTION_WIDTH = _WIDTH - 24
"""Width of an option's help, which argparse begins in column 24."""


class _OfCommand(Arg):
    """Argument of a command that refuses other arguments by itself: the parser of all commands prints another help."""

    def add_to_parser(self, parser: ArgumentParser) -> None:
        super().add_to_parser(parser)
        if not isinstance(parser.parse_known_args, _Strict):
            parser.parse_known_args = _Strict(parser)  # type: ignore[method-assign,assignment]


class _Strict:
    """Parse arguments of which none may be left over."""

    def __init__(self, parser: ArgumentParser) -> None:
        self._parser, self._parse = parser, parser.parse_known_args

    def __call__(
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        found, others = self._parse(args, namespace)
        if others:
            self._parser.error(f"unrecognized arguments: {' '.join(others)}")
        return found, others


def argument(*flags: str, help: str, **options: Any) -> Arg:  # noqa: A002 - argparse's word
    """Return an argument whose help fits into 80 columns."""
    return _OfCommand(flags, help=textwrap.fill(help, _OPTION_WIDTH), **options)  # type: ignore[no-untyped-call]


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
