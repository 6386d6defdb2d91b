"""``python -m demo run | up | down``."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from demo.keep import down, serve, up
from demo.ports import PortInUseError
from demo.processes import ProcessFailedError
from demo.run import run
from demo.stack import CHECKOUT, Plan, StillRunningError
from demo.stores import STORES, MissingProgramError, ServerStore
from demo.warehouses import WAREHOUSES
from tests.servers.postgresql import ServerFailedError

CANNOT_START = (
    FileExistsError,
    MissingProgramError,
    PortInUseError,
    ProcessFailedError,
    ServerFailedError,
    StillRunningError,
)


def main(argv: list[str] | None = None) -> int:
    """Run one of the commands.

    :returns: the exit code: 0 kept its promises, 1 did not, 2 could not start.
    """
    parser = _parser()
    given, defaults = parser.parse_args(argv), Plan()
    home = given.home.resolve()
    if given.command == "run" and given.fault and not issubclass(STORES[given.store], ServerStore):
        parser.error(f"--fault: {given.store} has no server that could be broken; choose another --store")
    try:
        if given.command == "run":
            plan = Plan(
                days=given.days,
                twin_days=min(given.days, defaults.twin_days) if given.twin_days is None else given.twin_days,
                port=given.port,
                connect_port=given.connect_port,
                store=given.store,
                warehouse=given.warehouse,
            )
            return run(home=home, plan=plan, fault=given.fault)
        if given.command == "up":
            return up(home, port=given.port, connect_port=given.connect_port)
        return {"serve": serve, "down": down}[given.command](home)
    except CANNOT_START as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("demo: stopped; no process is left", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    defaults = Plan()
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--home", type=Path, default=CHECKOUT / ".demo", help="folder of all that is written")
    commands = parser.add_subparsers(dest="command", required=True)
    run_command = commands.add_parser("run", help="run the demo from its start to its end")
    run_command.add_argument(
        "--days",
        type=_positive,
        default=defaults.days,
        help=f"days with the package (default {defaults.days})",
    )
    run_command.add_argument(
        "--twin-days",
        type=_whole,
        help=f"days of the naive twin; 0 leaves it out (default as --days, at most {defaults.twin_days})",
    )
    _add_ports(run_command, str(defaults.port), str(defaults.connect_port))
    stores = "where the metadata are; a server is started in the demo's home"
    run_command.add_argument("--store", choices=sorted(STORES), default=defaults.store, help=stores)
    run_command.add_argument(
        "--warehouse",
        choices=sorted(WAREHOUSES),
        default=defaults.warehouse,
        help="where the tables are: in the demo's home, or in an S3 emulator that is started",
    )
    run_command.add_argument(
        "--fault", action="store_true", help="break the store's server while epochs are in publish"
    )
    up_command = commands.add_parser("up", help="start what the last run left, and keep it running")
    _add_ports(up_command, None, None)
    commands.add_parser("down", help="stop it")
    commands.add_parser("serve", help="what `up` starts: hold the processes until SIGTERM")
    return parser


def _add_ports(command: argparse.ArgumentParser, port: str | None, connect_port: str | None) -> None:
    """Let a command's ports be chosen, also by the environment, whose text the argument's own parser judges.

    :param port: where nothing is chosen; None for the one that the last run had. :param connect_port: likewise.
    """
    for name, variable, default, meaning in (
        ("port", "DEMO_PORT", port, "Airflow's port"),
        ("connect-port", "DEMO_CONNECT_PORT", connect_port, "Spark Connect's port"),
    ):
        command.add_argument(
            f"--{name}",
            type=_positive,
            default=os.environ.get(variable) or default,
            help=f"{meaning} (default {default or 'that of the last run'}; the environment's {variable})",
        )


def _whole(text: str) -> int:
    """Parse a number of days that may be none."""
    return 0 if text == "0" else _positive(text)


def _positive(text: str) -> int:
    """Parse a number of days or a port."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
