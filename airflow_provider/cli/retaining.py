"""The commands ``airflow epochs retention …`` and ``compact``: which states go, and which files."""

from __future__ import annotations

from airflow.cli.cli_config import ARG_OUTPUT, ARG_VERBOSE

from airflow_provider.cli.declaring import ARG_CONN_ID, ARG_DOMAIN, argument, subcommand

_ARG_TABLE = argument("table", help="name of the table")
_ARG_BARRIER = argument("barrier", help="the barrier, such as 2013-02-08T00:00:00+00:00")
_ARG_SOME_TABLES = argument(
    "tables", help="names of the tables; default: all full tables", nargs="*", metavar="TABLE"
)
_ARG_NEWEST = argument(
    "--newest", help="number of newest states of each table to keep; default: 2", default="2", metavar="N"
)
_ARG_EACH = argument(
    "--each",
    help="keep a state for each of the last barriers of a calendar, such as @daily=30; may be repeated",
    action="append",
    default=[],
    metavar="CALENDAR=N",
)
_ARG_MOST = argument("--most", help="number of states that one call expires; default: 1000", default="1000")
_ARG_DRY_RUN = argument("--dry-run", help="list what would be expired; change nothing", action="store_true")
_ON_DOMAIN = (ARG_CONN_ID, ARG_DOMAIN, ARG_VERBOSE)
_ANSWERS_ON_DOMAIN = (ARG_CONN_ID, ARG_DOMAIN, ARG_OUTPUT, ARG_VERBOSE)

COMPACT_COMMAND = subcommand(
    "compact",
    "Bring the epochs of each month of a table into common files",
    (
        _ARG_TABLE,
        argument(
            "--before", help="leave units alone that end after this barrier; default: none", default=None
        ),
        argument("--unit", help="month, day or year (UTC); default: month", default="month"),
        argument("--undo", help="give each epoch files of its own again", action="store_true"),
        argument(
            "--since", help="with --undo: only units with an epoch that ends after this barrier", default=None
        ),
        *_ANSWERS_ON_DOMAIN,
    ),
    calls="compact.compact",
    more="For incremental Iceberg tables with many small epochs, beside jobs and readers: no row changes, and no job "
    "waits. A unit becomes one file for each partition value. Units that have not ended are left alone. The vacuum "
    "deletes the former files. An epoch that is computed again gets files of its own first.",
)

RETENTION_COMMANDS = (
    subcommand(
        "keep",
        "Expire all states of full tables but those to keep",
        (_ARG_SOME_TABLES, _ARG_NEWEST, _ARG_EACH, _ARG_MOST, _ARG_DRY_RUN, *_ANSWERS_ON_DOMAIN),
        calls="retention.keep",
        more="Oldest first; run it again until nothing is left. States that a job has yet to read stay. Incremental "
        "tables have all their rows in every later state, and are left alone. The vacuum deletes the files.",
    ),
    subcommand(
        "expire",
        "Expire a table's state at a barrier",
        (_ARG_TABLE, _ARG_BARRIER, *_ON_DOMAIN),
        calls="retention.expire",
        more="New cuts no longer read the table at this barrier; existing claims keep what they hold. No row of the "
        "table's newest state is removed.",
    ),
    subcommand(
        "vacuum",
        "End expired claims and delete superseded, unclaimed files",
        _ANSWERS_ON_DOMAIN,
        calls="retention.vacuum",
        more="Safe at any time, several times at once, and again after a crash.",
    ),
)
