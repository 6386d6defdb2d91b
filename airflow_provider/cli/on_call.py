"""The commands for people on call: what is late and why, what came from where, and what to do about an attempt."""

from __future__ import annotations

from airflow.cli.cli_config import ARG_OUTPUT, ARG_VERBOSE

from airflow_provider.cli.declaring import ARG_CONN_ID, ARG_DOMAIN, argument, subcommand

_ARG_SOME_TABLES = argument("tables", help="names of the tables; default: all", nargs="*", metavar="TABLE")
_ARG_TABLE = argument("table", help="name of the table")
_ARG_BARRIER = argument("barrier", help="the barrier, such as 2013-02-08T00:00:00+00:00")
_ARG_SOME_TABLE = argument(
    "table",
    help="name of the table; default: the epochs of the domain, between two CSNs",
    nargs="?",
    default=None,
)
_ARG_SINCE = argument(
    "--from",
    help="earlier state: a barrier such as 2013-02-08, @CSN, BARRIER@CSN, or lease:NAME",
    dest="since",
    required=True,
)
_ARG_UNTIL = argument(
    "--to", help="later state, written likewise; default: the newest", dest="until", default=None
)
_ARG_SOME_EPOCHS = argument(
    "--interval", help="compare only these epochs: 2013-02-07, 2013-02-07T05, or start/end", default=None
)
_ARG_ROWS = argument(
    "--rows", help="rows to print of those added, and of those removed; default: 5", default="5"
)
_ARG_NAMES = argument("names", help="names of the jobs or tables", nargs="+", metavar="NAME")
_ARG_INTERVAL = argument(
    "--interval", help="the epochs: 2013-02-07, 2013-02-07T05, or start/end", required=True
)
_ARG_FORMAT = argument(
    "--format",
    help="text, or a drawing in the language of Mermaid or Graphviz; default: text",
    choices=("text", "mermaid", "graphviz"),
    default="text",
)
_ARG_PATH = argument("path", help="a DAG file, or a folder of DAG files")
_ARG_TABLES = argument("tables", help="names of the tables", nargs="+", metavar="TABLE")
_ARG_AT = argument("--at", help="the barrier, such as 2013-02-08T00:00:00+00:00", required=True)
_ARG_TIMEOUT = argument("--timeout", help="longest time to wait: 90s, 15m, 6h, 2d; default: 1h", default="1h")
_ARG_SOME_JOBS = argument("jobs", help="names of the jobs; default: all", nargs="*", metavar="JOB")
_ARG_JOB = argument("job", help="name of the job")
_ARG_EPOCH = argument("interval", help="the epoch: 2013-02-07, 2013-02-07T05, or start/end")
_ARG_REASON = argument("--reason", help="why; stored with your user name", required=True)
_ARG_YES = argument("--yes", help="do not ask", action="store_true")

_ANSWERS_ON_DOMAIN = (ARG_CONN_ID, ARG_DOMAIN, ARG_OUTPUT, ARG_VERBOSE)

ON_CALL_COMMANDS = (
    subcommand(
        "lag",
        "Show how far tables are behind, and which epochs hold them back",
        (_ARG_SOME_TABLES, *_ANSWERS_ON_DOMAIN),
        calls="lag.show_lag",
        more="local: behind the job's calendar. global: ahead of what a cut of the whole domain reads. wall clock: age "
        "of the table. end to end: age of the oldest data that it has of a source.",
    ),
    subcommand(
        "show",
        "Show all that is recorded of an epoch: attempts, inputs, output",
        (_ARG_JOB, _ARG_EPOCH, *_ANSWERS_ON_DOMAIN),
        calls="show.show_epoch",
    ),
    subcommand(
        "provenance",
        "Show from which epochs and source bounds a state was computed",
        (_ARG_TABLE, _ARG_BARRIER, *_ANSWERS_ON_DOMAIN),
        calls="provenance.provenance",
        more="Of the epoch of the table that ends at the barrier: what it has read, what that was computed from, and "
        "so on up to the sources, as the commits recorded it.",
    ),
    subcommand(
        "impact",
        "Show what would follow if epochs were computed again",
        (_ARG_NAMES, _ARG_INTERVAL, *_ANSWERS_ON_DOMAIN),
        calls="impact.show_impact",
        more="By job: epochs that a restatement would compute again, those that would hold it, and those that would "
        "stay with a label. Changes nothing.",
    ),
    subcommand(
        "diff",
        "Show in which rows a table differs between two states",
        (_ARG_SOME_TABLE, _ARG_SINCE, _ARG_UNTIL, _ARG_SOME_EPOCHS, _ARG_ROWS, *_ANSWERS_ON_DOMAIN),
        calls="diff.show_difference",
        more="Without TABLE: in which epochs the domain differs between two CSNs: those that came, were computed "
        "again, or were taken back. Exit code 0 whether they differ or not.",
    ),
    subcommand(
        "topology",
        "Show the jobs of a domain, what they read and what they write",
        (_ARG_FORMAT, *_ANSWERS_ON_DOMAIN),
        calls="topology.topology",
    ),
    subcommand(
        "check",
        "Check the jobs that DAG files declare; needs no store",
        (_ARG_PATH, ARG_OUTPUT, ARG_VERBOSE),
        calls="check.check",
        more="Parses the files as Airflow does. Finds cycles, calendars without common barriers, schedules that leave "
        "epochs out, second writers, second declarations, and tables that no job writes. Exit code 1 with findings.",
    ),
    subcommand(
        "wait",
        "Wait until tables have reached a barrier",
        (_ARG_TABLES, _ARG_AT, _ARG_TIMEOUT, *_ANSWERS_ON_DOMAIN),
        calls="wait.wait",
        more="Exit code 3 if they have not within the time-out.",
    ),
    subcommand(
        "locks",
        "List the attempts that have not ended, and until when",
        (_ARG_SOME_JOBS, *_ANSWERS_ON_DOMAIN),
        calls="locks.locks",
    ),
    subcommand(
        "abort",
        "End the open attempt at an epoch, and delete what it has written",
        (_ARG_JOB, _ARG_EPOCH, _ARG_REASON, _ARG_YES, *_ANSWERS_ON_DOMAIN),
        calls="abort.abort",
        more="Its program is refused from then on, whatever it still does. What is committed stays.",
    ),
)
