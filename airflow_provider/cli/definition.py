"""What ``airflow epochs …`` offers. Every call of ``airflow`` imports it, so it imports nothing of the package."""

from __future__ import annotations

from airflow.cli.cli_config import (
    ARG_OUTPUT,
    ARG_VERBOSE,
    ActionCommand,
    Arg,
    CLICommand,
    GroupCommand,
    lazy_load_command,
)

ARG_CONN_ID = Arg(
    ("--conn-id",),
    help="connection of the metadata store; default: option conn_id of section epochs",
    default=None,
)
ARG_DOMAIN = Arg(("--domain",), help="domain of the jobs and tables; default: default", default="default")
ARG_HOURS = Arg(
    ("--hours",), help="how far to look back from the latest barrier; default: 168", default="168"
)
ARG_JOB = Arg(("job",), help="name of the job")
ARG_INTERVAL = Arg(
    ("interval",),
    help="the epoch: 2013-02-07, 2013-02-07T05, or start/end; default: the first that is not committed",
    nargs="?",
    default=None,
)
ARG_SPAN = Arg(("interval",), help="which epochs: 2013-02-07, 2013-02-07T05, or start/end")
ARG_ROOT = Arg(("root",), help="name of the root, as jobs declare it")
ARG_EPOCH = Arg(("interval",), help="the epoch: 2013-02-07, 2013-02-07T05, or start/end")
ARG_REASON = Arg(("--reason",), help="why; people will read it later", required=True)
ARG_LEFT_TABLE = Arg(("--table",), help="only this table, which the job no longer declares", default=None)
ARG_TABLES = Arg(("tables",), help="names of the tables", nargs="+", metavar="TABLE")
ARG_AT = Arg(("--at",), help="greatest barrier wanted, such as 2013-02-08T00:00:00+00:00", default=None)
ARG_LEVEL = Arg(
    ("--level",),
    help="isolation; default: option read_level of section epochs; repeatable_read needs --lease and --owner",
    choices=("read_committed", "read_uncommitted", "repeatable_read"),
    default=None,
)
ARG_MAX_LAG = Arg(
    ("--max-lag",), help="take slower full tables, at most so much earlier: 90m, 6h, 2d", default=None
)
ARG_MAX_STALENESS = Arg(
    ("--max-staleness",), help="how old any of the tables may be: 90m, 6h, 2d", default=None
)
ARG_CONSISTENCY = Arg(
    ("--consistency",),
    help="rolling, or altogether (barriers of the whole domain); default: option read_consistency of section epochs",
    choices=("rolling", "altogether"),
    default=None,
)
ARG_SESSION = Arg(
    ("--session",), help="what was seen before, as -o json printed it: no table goes back", default=None
)
ARG_SQL = Arg(
    ("--sql",),
    help="print each table's query in the SQL of an engine, and nothing else",
    choices=("duckdb", "spark", "trino"),
    default=None,
)
ARG_LEASE = Arg(("--lease",), help="hold the cut by a lease with this name", default=None)
ARG_LEASE_OWNER = Arg(("--owner",), help="whose lease it is, or shall be", default=None)
ARG_TTL = Arg(("--ttl",), help="how long the lease lasts: 90m, 6h, 2d; default: 1h", default=None)
ARG_NAME = Arg(("name",), help="name of the lease")
ARG_OWNER = Arg(("--owner",), help="whose lease it is", required=True)
ARG_TABLE = Arg(("table",), help="name of the table")
ARG_BARRIER = Arg(("barrier",), help="the barrier, such as 2013-02-08T00:00:00+00:00")
ARG_FILES = Arg(("--files",), help="also list the data files of each table", action="store_true")

ARG_AFTER = Arg(
    ("--after",), help="a position, as an earlier line has it; default: from the beginning", default=None
)
ARG_FOLLOW = Arg(("--follow",), help="wait for further commits", action="store_true")

ARG_FROM = Arg(("--from",), help="connection of the store that has the domain", dest="source", required=True)
ARG_TO = Arg(("--to",), help="connection of the store that gets it", dest="target", required=True)
ARG_COPIED = Arg(
    ("--warehouse",),
    help="the connections name two warehouses, and the files were copied from the one to the other",
    action="store_true",
)

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
    ActionCommand(
        name="restored",
        help="Say that the store was restored from a backup: what was begun before is over",
        func=lazy_load_command("airflow_provider.cli.db.restored"),
        args=(ARG_CONN_ID, ARG_OUTPUT, ARG_VERBOSE),
        description="Gives the store a new incarnation, and compares all tables of all domains with it.",
        epilog="Exit code 1 when tables are ahead of the store.",
    ),
    ActionCommand(
        name="move",
        help="Move a domain to another store, with its history, numbers and the tables' pointers",
        func=lazy_load_command("airflow_provider.cli.move.move"),
        args=(ARG_FROM, ARG_TO, ARG_DOMAIN, ARG_COPIED, ARG_OUTPUT, ARG_VERBOSE),
        description="Refused while tasks or leased reads run. The old store takes no change of the domain afterwards. "
        "An interrupted move is run again.",
    ),
)

_LEASE_COMMANDS = (
    ActionCommand(
        name="list",
        help="List the live leases: who holds what, and until when",
        func=lazy_load_command("airflow_provider.cli.lease.leases"),
        args=(ARG_CONN_ID, ARG_DOMAIN, ARG_OUTPUT, ARG_VERBOSE),
    ),
    ActionCommand(
        name="renew",
        help="Make a lease last longer; never shorter",
        func=lazy_load_command("airflow_provider.cli.lease.renew"),
        args=(ARG_NAME, ARG_OWNER, ARG_TTL, ARG_CONN_ID, ARG_DOMAIN, ARG_VERBOSE),
    ),
    ActionCommand(
        name="drop",
        help="End a lease now; readers that use it are refused from then on",
        func=lazy_load_command("airflow_provider.cli.lease.drop"),
        args=(ARG_NAME, ARG_OWNER, ARG_CONN_ID, ARG_DOMAIN, ARG_VERBOSE),
    ),
)

_RETENTION_COMMANDS = (
    ActionCommand(
        name="withdraw",
        help="Let no cut be made of a table at one barrier any more",
        func=lazy_load_command("airflow_provider.cli.retention.withdraw"),
        args=(ARG_TABLE, ARG_BARRIER, ARG_CONN_ID, ARG_DOMAIN, ARG_VERBOSE),
        description="Claims that exist keep what they hold. No row of a table's newest state goes.",
    ),
    ActionCommand(
        name="sweep",
        help="End claims that have expired, and delete what was superseded and nobody claims",
        func=lazy_load_command("airflow_provider.cli.retention.sweep"),
        args=(ARG_CONN_ID, ARG_DOMAIN, ARG_OUTPUT, ARG_VERBOSE),
        description="May run at any time, by several at once, and again after a crash.",
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
        args=(
            ARG_TABLES,
            ARG_AT,
            ARG_LEVEL,
            ARG_MAX_LAG,
            ARG_MAX_STALENESS,
            ARG_CONSISTENCY,
            ARG_SESSION,
            ARG_LEASE,
            ARG_LEASE_OWNER,
            ARG_TTL,
            ARG_FILES,
            ARG_SQL,
            ARG_CONN_ID,
            ARG_DOMAIN,
            ARG_OUTPUT,
            ARG_VERBOSE,
        ),
    ),
    ActionCommand(
        name="changes",
        help="Print what was committed, one line of JSON for each table, in the order of the commits",
        func=lazy_load_command("airflow_provider.cli.changes.changes"),
        args=(ARG_AFTER, ARG_FOLLOW, ARG_CONN_ID, ARG_DOMAIN, ARG_VERBOSE),
        description="At least once: keep the position of the last line that was taken care of, and go on after it.",
    ),
    ActionCommand(
        name="skip",
        help="Declare that nothing will come of epochs of a job, so that those who wait for them go on",
        func=lazy_load_command("airflow_provider.cli.skip.skip"),
        args=(ARG_JOB, ARG_SPAN, ARG_REASON, ARG_CONN_ID, ARG_DOMAIN, ARG_OUTPUT, ARG_VERBOSE),
        description="Recorded with your name. What is committed stays; running the task later makes a revision.",
    ),
    ActionCommand(
        name="bind",
        help="Bind a root anew: let an epoch read what its source has now, not what was recorded when it began first",
        func=lazy_load_command("airflow_provider.cli.bind.bind_root"),
        args=(ARG_ROOT, ARG_EPOCH, ARG_REASON, ARG_CONN_ID, ARG_DOMAIN, ARG_OUTPUT, ARG_VERBOSE),
        description="Recorded with your name. What is committed stays as it is until its task is cleared.",
    ),
    ActionCommand(
        name="retire",
        help="Let nothing more come of a job: nobody waits for it, and others may take its tables over",
        func=lazy_load_command("airflow_provider.cli.retire.retire"),
        args=(ARG_JOB, ARG_REASON, ARG_LEFT_TABLE, ARG_CONN_ID, ARG_DOMAIN, ARG_VERBOSE),
        description="Refused while its tasks run. What its tables have stays readable.",
    ),
    ActionCommand(
        name="revive",
        help="Let a retired job go on where it was",
        func=lazy_load_command("airflow_provider.cli.retire.revive"),
        args=(ARG_JOB, ARG_CONN_ID, ARG_DOMAIN, ARG_VERBOSE),
    ),
    ActionCommand(
        name="doctor",
        help="Look a domain over: its records against its tables, what is stuck, and what was left lying",
        func=lazy_load_command("airflow_provider.cli.doctor.doctor"),
        args=(ARG_CONN_ID, ARG_DOMAIN, ARG_OUTPUT, ARG_VERBOSE),
        description="Changes nothing. Each line names the next command to type.",
        epilog="Exit code 1 when something needs somebody to act.",
    ),
    ActionCommand(
        name="recover",
        help="Repair what a killed process left: let the catalog's pointers follow the store",
        func=lazy_load_command("airflow_provider.cli.recover.recover"),
        args=(ARG_CONN_ID, ARG_DOMAIN, ARG_OUTPUT, ARG_VERBOSE),
        description="May be repeated, and run at any time beside jobs and readers.",
    ),
    GroupCommand(name="lease", help="Who keeps which cuts readable", subcommands=_LEASE_COMMANDS),
    GroupCommand(name="retention", help="Old states, and their files", subcommands=_RETENTION_COMMANDS),
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
