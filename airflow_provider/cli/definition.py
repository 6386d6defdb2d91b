"""The commands ``airflow epochs …`` and their options.

Every call of ``airflow`` imports this module, so it imports nothing of the package but what is as light. Airflow prints
help texts as they are; they are folded here, so that they fit into 80 columns.
"""

from __future__ import annotations

from airflow.cli.cli_config import ARG_OUTPUT, ARG_VERBOSE, CLICommand, GroupCommand

from airflow_provider.cli.declaring import ARG_CONN_ID, ARG_DOMAIN
from airflow_provider.cli.declaring import argument as _arg
from airflow_provider.cli.declaring import subcommand as _command
from airflow_provider.cli.on_call import ON_CALL_COMMANDS
from airflow_provider.cli.retaining import COMPACT_COMMAND, RETENTION_COMMANDS

ARG_HOURS = _arg("--hours", help="hours before the newest barrier; default: 168", default="168")
ARG_JOB = _arg("job", help="name of the job")
ARG_INTERVAL = _arg(
    "interval",
    help="the epoch: 2013-02-07, 2013-02-07T05, or start/end; default: the first without a commit",
    nargs="?",
    default=None,
)
ARG_SPAN = _arg("interval", help="the epochs: 2013-02-07, 2013-02-07T05, or start/end")
ARG_SOURCE = _arg("source", help="name of the source, as jobs declare it")
ARG_EPOCH = _arg("interval", help="the epoch: 2013-02-07, 2013-02-07T05, or start/end")
ARG_REASON = _arg("--reason", help="why; stored with your user name", required=True)
ARG_LEFT_TABLE = _arg("--table", help="only this table, which the job no longer declares", default=None)
ARG_TABLES = _arg("tables", help="names of the tables", nargs="+", metavar="TABLE")
ARG_AT = _arg("--at", help="latest barrier to read, such as 2013-02-08T00:00:00+00:00", default=None)
ARG_LEVEL = _arg(
    "--level",
    help="isolation level; default: option read_level of section epochs; repeatable_read needs --lease and --owner",
    choices=("read_committed", "read_uncommitted", "repeatable_read"),
    default=None,
)
ARG_MAX_LAG = _arg(
    "--max-lag",
    help="let a slow full table be read at an earlier barrier, at most this much earlier: 90m, 6h, 2d",
    default=None,
)
ARG_MAX_STALENESS = _arg(
    "--max-staleness", help="fail if a table is older than this: 90m, 6h, 2d", default=None
)
ARG_CONSISTENCY = _arg(
    "--consistency",
    help="rolling: barriers that these tables have reached; altogether: barriers that the whole domain has reached; "
    "default: option read_consistency of section epochs",
    choices=("rolling", "altogether"),
    default=None,
)
ARG_SESSION = _arg(
    "--session",
    help="session of an earlier call, from its -o json: no table goes back behind it",
    default=None,
)
ARG_SQL = _arg(
    "--sql",
    help="print only the query of each table, in the SQL of this engine",
    choices=("duckdb", "spark", "trino"),
    default=None,
)
ARG_LEASE = _arg("--lease", help="hold the cut by a lease of this name", default=None)
ARG_LEASE_OWNER = _arg("--owner", help="owner of the lease", default=None)
ARG_TTL = _arg("--ttl", help="time to live of the lease: 90m, 6h, 2d; default: 1h", default=None)
ARG_HOST = _arg("--host", help="address to listen on; default: 127.0.0.1", default="127.0.0.1")
ARG_PORT = _arg("--port", help="port to listen on; default: 8181", default="8181")
ARG_TOKEN_FILE = _arg(
    "--token-file",
    help="file with the token that clients must give; default: a new token, which is printed",
    default=None,
)
ARG_NAME = _arg("name", help="name of the lease")
ARG_OWNER = _arg("--owner", help="owner of the lease", required=True)
ARG_FILES = _arg("--files", help="list the data files of each table, too", action="store_true")
ARG_AFTER = _arg(
    "--after",
    help="position of the last line that you have processed; default: from the beginning",
    default=None,
)
ARG_NO_EVENTS = _arg(
    "--no-events",
    help="send no asset event: start no run of a DAG that follows the tables",
    action="store_true",
)
ARG_WITH_READERS = _arg(
    "--with-readers",
    help="also compute again the epochs that have read its rows since, before anything is visible",
    action="store_true",
)
ARG_FOLLOW = _arg("--follow", help="wait for further commits", action="store_true")
ARG_NEW_CATALOG = _arg(
    "--new-catalog",
    help="the connection names another catalog than before: enter the domain's tables there",
    action="store_true",
)
ARG_RESTATED = _arg("names", help="names of the jobs or tables", nargs="+", metavar="NAME")
ARG_RANGE = _arg("--interval", help="the epochs: 2013-02-07, 2013-02-07T05, or start/end", required=True)
ARG_RESTATEMENT = _arg("name", help="name of the restatement")
ARG_HOLDING = _arg("jobs", help="names of jobs whose epochs hold it", nargs="+", metavar="JOB")
ARG_WHY = _arg("--reason", help="why, if the restatement's own reason does not say it", default="")
ARG_NEW_NAME = _arg(
    "--name",
    help="name of the restatement; default: made of the first NAME and the start of the first epoch",
    default=None,
)
ARG_SUBJECT = _arg("subject", help="what to drop", choices=("table", "job", "domain"))
ARG_DROPPED = _arg("name", help="its name")
ARG_CASCADE = _arg("--cascade", help="drop jobs that share or have read its tables, too", action="store_true")
ARG_ROLLED_BACK = _arg("domain", help="name of the domain")
ARG_TO_CSN = _arg("--to", help="CSN whose rows its tables get again", metavar="CSN", required=True)
ARG_DRY_RUN = _arg("--dry-run", help="show what would be taken back; change nothing", action="store_true")
ARG_NEEDS_APPROVAL = _arg("--needs-approval", help="publish only what was approved", action="store_true")
ARG_DEADLINE = _arg(
    "--deadline", help="time from now until the restatement is over: 90m, 6h, 2d; default: 7d", default=None
)
ARG_MAX_ACTIVE_RUNS = _arg("--max-active-runs", help="runs of a DAG at a time; default: 4", default="4")
ARG_YES = _arg("--yes", help="do not ask first", action="store_true")
ARG_CHANGED_TABLE = _arg("--table", help="only this table", default=None)
ARG_ROWS = _arg("--rows", help="rows to print of those added, and of those removed; default: 5", default="5")
ARG_DIGEST = _arg(
    "--digest", help="digest of the output, as restate status prints it", required=True, metavar="DIGEST"
)
ARG_FROM = _arg("--from", help="connection of the store that has the domain", dest="source", required=True)
ARG_TO = _arg("--to", help="connection of the store that gets the domain", dest="target", required=True)
ARG_COPIED = _arg(
    "--warehouse",
    help="the connections name two warehouses, and the files were copied from the first to the second",
    action="store_true",
)

_ON_DOMAIN = (ARG_CONN_ID, ARG_DOMAIN, ARG_VERBOSE)
_ANSWERS_ON_DOMAIN = (ARG_CONN_ID, ARG_DOMAIN, ARG_OUTPUT, ARG_VERBOSE)
_ANSWERS_ON_STORE = (ARG_CONN_ID, ARG_OUTPUT, ARG_VERBOSE)

_DB_COMMANDS = (
    _command(
        "check",
        "Compare the store's schema with this version of the package",
        _ANSWERS_ON_STORE,
        calls="db.check",
        more="Exit code 1 if it does not fit.",
    ),
    _command(
        "upgrade",
        "Create or upgrade the store's schema",
        _ANSWERS_ON_STORE,
        calls="db.upgrade",
        more="Atomic, and safe to repeat.",
    ),
    _command(
        "restored",
        "Declare that the store was restored from a backup",
        _ANSWERS_ON_STORE,
        calls="db.restored",
        more="Gives the store a new incarnation, which ends all attempts begun before, and compares the tables of all "
        "domains with the store. Exit code 1 if a table is ahead of it.",
    ),
    _command(
        "move",
        "Move a domain to another store, with history and table pointers",
        (ARG_FROM, ARG_TO, ARG_DOMAIN, ARG_COPIED, ARG_OUTPUT, ARG_VERBOSE),
        calls="move.move",
        more="Refused while tasks or leased reads run. Afterwards the old store refuses changes of the domain. If the "
        "move is interrupted, run it again.",
    ),
)

_LEASE_COMMANDS = (
    _command(
        "list",
        "List the live leases with owner, end and tables",
        _ANSWERS_ON_DOMAIN,
        calls="lease.leases",
    ),
    _command(
        "renew",
        "Extend a lease",
        (ARG_NAME, ARG_OWNER, ARG_TTL, *_ON_DOMAIN),
        calls="lease.renew",
        more="A lease never becomes shorter.",
    ),
    _command(
        "release",
        "Let a lease hold some of its tables no longer",
        (ARG_NAME, ARG_TABLES, ARG_OWNER, *_ON_DOMAIN),
        calls="lease.release",
        more="It holds the others as long as before, and ends without any.",
    ),
    _command(
        "drop",
        "End a lease now",
        (ARG_NAME, ARG_OWNER, *_ON_DOMAIN),
        calls="lease.drop",
        more="Readers that use the lease are refused from then on.",
    ),
)

_RESTATE_COMMANDS = (
    _command(
        "plan",
        "Show what a restatement would compute again; changes nothing",
        (ARG_RESTATED, ARG_RANGE, *_ANSWERS_ON_DOMAIN),
        calls="restate.plan",
        more="The committed epochs of the interval, and all committed epochs that have read them. Exit code 1 if an "
        "obstacle keeps them from being computed again.",
    ),
    _command(
        "open",
        "Open a restatement: its epochs are computed within it",
        (
            ARG_RESTATED,
            ARG_RANGE,
            ARG_REASON,
            ARG_NEW_NAME,
            ARG_NEEDS_APPROVAL,
            ARG_DEADLINE,
            *_ANSWERS_ON_DOMAIN,
        ),
        calls="restate.open_restatement",
        more="Readers see nothing of it before it is published, and normal runs leave its epochs alone. While it "
        "is open the call may be repeated with the same --name.",
    ),
    _command("list", "List the restatements of a domain", _ANSWERS_ON_DOMAIN, calls="restate.restatements"),
    _command(
        "status",
        "Show how far a restatement is, and the next command",
        (ARG_RESTATEMENT, *_ANSWERS_ON_DOMAIN),
        calls="restate.status",
    ),
    _command(
        "join",
        "Make epochs that hold a restatement its members",
        (ARG_RESTATEMENT, ARG_HOLDING, ARG_WHY, *_ANSWERS_ON_DOMAIN),
        calls="holding.join",
        more="With all committed epochs that have read them: they are computed within it, and published with it.",
    ),
    _command(
        "release",
        "Let epochs that hold a restatement stay as they are",
        (ARG_RESTATEMENT, ARG_HOLDING, ARG_REASON, *_ANSWERS_ON_DOMAIN),
        calls="holding.release",
        more="For this one publish: from then on their rows, and what was computed from them, carry a label.",
    ),
    _command(
        "diff",
        "Show the rows that a restatement adds and removes",
        (ARG_RESTATEMENT, ARG_CHANGED_TABLE, ARG_ROWS, *_ANSWERS_ON_DOMAIN),
        calls="restate.diff",
        more="Compares what is staged with the newest state of each table. Refused until all epochs are staged.",
    ),
    _command(
        "approve",
        "Approve the output of a restatement",
        (ARG_RESTATEMENT, ARG_DIGEST, *_ON_DOMAIN),
        calls="restate.approve",
        more="Of exactly this output: an epoch that is computed again ends the approval.",
    ),
    _command(
        "publish",
        "Publish all epochs of a restatement in one commit",
        (ARG_RESTATEMENT, ARG_NO_EVENTS, *_ANSWERS_ON_DOMAIN),
        calls="restate.publish",
        more="All of them or none; then Airflow gets an asset event of each table. Safe to repeat: that sends the "
        "events again.",
    ),
    _command(
        "abandon",
        "End a restatement without a commit, delete what it has staged",
        (ARG_RESTATEMENT, ARG_REASON, *_ON_DOMAIN),
        calls="restate.abandon",
        more="Published rows stay as they are. If it is interrupted, run it again.",
    ),
    _command(
        "revert",
        "Take a published restatement back: the former rows return",
        (ARG_RESTATEMENT, ARG_REASON, ARG_WITH_READERS, ARG_NO_EVENTS, *_ANSWERS_ON_DOMAIN),
        calls="restate.revert",
        more="Refused once other epochs have read its rows, without --with-readers; once one of its epochs was "
        "computed again; and seven days after it was published. The rows are copied. Interrupted, or told that readers "
        "are not computed yet: run it again.",
    ),
)

_CUT_ARGS = (
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
)

_COMMANDS = (
    _command(
        "status",
        "List tables, how far each is complete, and its epochs by state",
        (ARG_HOURS, *_ANSWERS_ON_DOMAIN),
        calls="status.status",
    ),
    _command(
        "explain",
        "Explain why an epoch waits, for what, and what to do",
        (ARG_JOB, ARG_INTERVAL, *_ANSWERS_ON_DOMAIN),
        calls="explain.explain_epoch",
    ),
    *ON_CALL_COMMANDS,
    _command(
        "cut",
        "Show the consistent cut that a reader of these tables gets now",
        (*_CUT_ARGS, *_ANSWERS_ON_DOMAIN),
        calls="cut.cut",
    ),
    _command(
        "changes",
        "Print committed changes in order, as lines of JSON",
        (ARG_AFTER, ARG_FOLLOW, *_ON_DOMAIN),
        calls="changes.changes",
        more="One line for each table of a commit. Delivery is at least once: store the position of the last line that "
        "you have processed, and pass it as --after.",
    ),
    _command(
        "skip",
        "Declare epochs of a job empty, so that their readers go on",
        (ARG_JOB, ARG_SPAN, ARG_REASON, *_ANSWERS_ON_DOMAIN),
        calls="skip.skip",
        more="Only epochs without a commit are skipped. If the task runs later, it publishes a revision. No asset "
        "event is sent: trigger the DAGs that follow the tables by assets.",
    ),
    _command(
        "bind",
        "Bind a source anew: let an epoch read what its source has now",
        (ARG_SOURCE, ARG_EPOCH, ARG_REASON, *_ANSWERS_ON_DOMAIN),
        calls="bind.bind_source",
        more="The bounds that were recorded when the epoch first began are replaced. A committed epoch stays as it is "
        "until its task is cleared.",
    ),
    _command(
        "retire",
        "End a job: readers do not wait for it, others may own its tables",
        (ARG_JOB, ARG_REASON, ARG_LEFT_TABLE, *_ON_DOMAIN),
        calls="retire.retire",
        more="Refused while a task of the job runs. Its tables stay readable.",
    ),
    _command("revive", "Let a retired job go on", (ARG_JOB, *_ON_DOMAIN), calls="retire.revive"),
    _command(
        "drop",
        "Start over: delete jobs with their tables, free their names",
        (ARG_SUBJECT, ARG_DROPPED, ARG_REASON, ARG_CASCADE, ARG_YES, *_ANSWERS_ON_DOMAIN),
        calls="drop.drop",
        more="Shows what goes and what is in the way, then asks. Readers lose all of it by one commit; the files go "
        "with a later vacuum. An interrupted drop goes on when it is repeated.",
    ),
    _command(
        "rollback",
        "Give a domain's tables the rows again that they had at a CSN",
        (ARG_ROLLED_BACK, ARG_TO_CSN, ARG_REASON, ARG_DRY_RUN, ARG_YES, *_ANSWERS_ON_STORE),
        calls="rollback.rollback",
        more="Shows which epochs are taken back and what is in the way, then asks. One commit takes them from "
        "readers; they are not committed any more, and may be computed again.",
    ),
    _command(
        "doctor",
        "Diagnose a domain: compare records with tables, report orphans",
        _ANSWERS_ON_DOMAIN,
        calls="doctor.doctor",
        more="Read-only. Each finding names the next command to run. Exit code 1 if a finding needs action.",
    ),
    _command(
        "recover",
        "Move the catalog's pointers to what the store recorded",
        (ARG_NEW_CATALOG, *_ANSWERS_ON_DOMAIN),
        calls="recover.recover",
        more="Repairs what a killed process left behind. Safe to repeat, and to run beside jobs and readers; "
        "with --new-catalog the jobs must rest.",
    ),
    _command(
        "serve",
        "Serve cuts to engines, as a read-only Iceberg REST catalog",
        (ARG_CONN_ID, ARG_HOST, ARG_PORT, ARG_TOKEN_FILE, ARG_VERBOSE),
        calls="serve.serve",
        more="Prints what engines have to be told: an address, a token, and what to name as the warehouse. Runs until "
        "it is interrupted. Airflow's API server serves the same below /epochs/catalog/CONN_ID.",
    ),
    _command(
        "backfill",
        "Correct a past interval: all DAGs of the cascade compute it anew",
        (
            ARG_RESTATED,
            ARG_RANGE,
            ARG_REASON,
            ARG_NEW_NAME,
            ARG_NEEDS_APPROVAL,
            ARG_DEADLINE,
            ARG_MAX_ACTIVE_RUNS,
            ARG_NO_EVENTS,
            ARG_YES,
            *_ANSWERS_ON_DOMAIN,
        ),
        calls="backfill.backfill",
        more="Opens a restatement of the interval, lets Airflow backfill the DAGs that computed its epochs, one after "
        "the other, shows what changes, and publishes all of it in one commit. Readers see all of the correction or "
        "nothing. If it is interrupted, repeat it with the --name that it has printed: it goes on.",
    ),
    GroupCommand(
        name="restate",
        help="Compute committed epochs and their readers again",
        subcommands=_RESTATE_COMMANDS,
    ),
    GroupCommand(name="lease", help="Leases, which keep cuts readable", subcommands=_LEASE_COMMANDS),
    COMPACT_COMMAND,
    GroupCommand(
        name="retention", help="Expire states of tables, delete old files", subcommands=RETENTION_COMMANDS
    ),
    GroupCommand(name="db", help="Check, upgrade, restore and move the store", subcommands=_DB_COMMANDS),
)


def get_cli_commands() -> list[CLICommand]:
    """Return the commands for Airflow's parser."""
    return [
        GroupCommand(
            name="epochs",
            help="Epochs: tables, cuts, leases, and the metadata store",
            subcommands=_COMMANDS,
        )
    ]
