"""What ``airflow epochs …`` offers. Every call of ``airflow`` imports it, so it imports nothing of the package."""

from __future__ import annotations

from airflow.cli.cli_config import (
    ARG_VERBOSE,
    ActionCommand,
    Arg,
    CLICommand,
    GroupCommand,
    lazy_load_command,
)

ARG_CONN_ID = Arg(
    ("--conn-id",), help="connection of the metadata store; default: [epochs] conn_id", default=None
)
ARG_DOMAIN = Arg(("--domain",), help="domain of the jobs and tables; default: default", default="default")
ARG_OUTPUT = Arg(
    ("-o", "--output"), help="table (default) or json", choices=("table", "json"), default="table"
)
ARG_HOURS = Arg(
    ("--hours",), help="how far to look back from the latest barrier; default: 168", type=int, default=168
)
ARG_JOB = Arg(("job",), help="name of the job")
ARG_INTERVAL = Arg(
    ("interval",),
    help="the epoch: 2013-02-07, 2013-02-07T05, or start/end; default: the first that is not committed",
    nargs="?",
    default=None,
)
ARG_TABLES = Arg(("tables",), help="names of the tables", nargs="+", metavar="TABLE")
ARG_AT = Arg(("--at",), help="greatest barrier wanted, such as 2013-02-08T00:00:00+00:00", default=None)
ARG_LEVEL = Arg(
    ("--level",),
    help="isolation: read_committed (default) or read_uncommitted",
    choices=("read_committed", "read_uncommitted"),
    default="read_committed",
)
ARG_FILES = Arg(("--files",), help="also list the data files of each table", action="store_true")

_DB_COMMANDS = (
    ActionCommand(
        name="check",
        help="Say whether the store's schema fits this version of the package",
        func=lazy_load_command("airflow_provider.cli.db.check"),
        args=(ARG_CONN_ID, ARG_OUTPUT, ARG_VERBOSE),
        epilog="Exit code 1 when it does not fit.",
    ),
    ActionCommand(
        name="upgrade",
        help="Make or upgrade the store's schema",
        func=lazy_load_command("airflow_provider.cli.db.upgrade"),
        args=(ARG_CONN_ID, ARG_OUTPUT, ARG_VERBOSE),
        description="Wholly or not at all; may be repeated.",
    ),
)

_COMMANDS = (
    ActionCommand(
        name="status",
        help="List the tables: how far each is complete, and which epochs are open, aborted or missing",
        func=lazy_load_command("airflow_provider.cli.status.status"),
        args=(ARG_CONN_ID, ARG_DOMAIN, ARG_HOURS, ARG_OUTPUT, ARG_VERBOSE),
    ),
    ActionCommand(
        name="explain",
        help="Say why an epoch is waiting, for whom, and what to do",
        func=lazy_load_command("airflow_provider.cli.explain.explain_epoch"),
        args=(ARG_JOB, ARG_INTERVAL, ARG_CONN_ID, ARG_DOMAIN, ARG_OUTPUT, ARG_VERBOSE),
    ),
    ActionCommand(
        name="cut",
        help="Show the consistent cut that a reader of these tables gets now",
        func=lazy_load_command("airflow_provider.cli.cut.cut"),
        args=(ARG_TABLES, ARG_AT, ARG_LEVEL, ARG_FILES, ARG_CONN_ID, ARG_DOMAIN, ARG_OUTPUT, ARG_VERBOSE),
    ),
    ActionCommand(
        name="recover",
        help="Repair what a killed process left: let the catalog's pointers follow the store",
        func=lazy_load_command("airflow_provider.cli.recover.recover"),
        args=(ARG_CONN_ID, ARG_DOMAIN, ARG_OUTPUT, ARG_VERBOSE),
        description="May be repeated, and run at any time beside jobs and readers.",
    ),
    GroupCommand(name="db", help="The metadata store's schema", subcommands=_DB_COMMANDS),
)


def get_cli_commands() -> list[CLICommand]:
    """Return the commands for Airflow's parser."""
    return [
        GroupCommand(
            name="epochs",
            help="Epochs: what is complete, why something waits, what a reader gets",
            subcommands=_COMMANDS,
        )
    ]
