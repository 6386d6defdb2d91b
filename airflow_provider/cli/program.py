"""The program ``airflow-epochs``: ``airflow epochs``, also where Airflow loads no commands of providers."""

from __future__ import annotations

import sys
from argparse import ArgumentParser

from airflow.cli import cli_parser

from airflow_provider.cli.definition import get_cli_commands


def parser() -> ArgumentParser:
    """Return Airflow's parser, with this package's commands in it; Airflow 3.1 adds none of a provider's by itself."""
    for group in get_cli_commands():
        cli_parser.ALL_COMMANDS_DICT.setdefault(group.name, group)
    return cli_parser.get_parser()


def main() -> None:
    """Run ``airflow epochs`` with the arguments of this program."""
    from airflow.__main__ import main as airflow

    sys.argv = ["airflow", "epochs", *sys.argv[1:]]
    parser()
    airflow()


if __name__ == "__main__":
    main()
