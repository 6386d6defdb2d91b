"""``airflow epochs lease …``."""

from __future__ import annotations

from argparse import Namespace
from datetime import datetime

from airflow_provider.cli.command import (
    answer_facts,
    answer_json,
    answer_table,
    command,
    duration,
    hook_of,
)
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.errors import LeaseHeld, UnknownName
from airflow_provider.domain.lease import Lease


@command
def leases(arguments: Namespace) -> None:
    """List the live leases."""
    with hook_of(arguments).get_conn(create=False) as service:
        found = service.leases.all(arguments.domain)
    if arguments.output == "json":
        answer_json([_facts(one) for one in found])
        return
    rows = [
        (
            one.id,
            one.owner,
            _short(one.until),
            _short(one.cut.barrier),
            one.cut.csn,
            ", ".join(one.cut.states),
        )
        for one in found
    ]
    answer_table(["lease", "owner", "until", "barrier", "CSN", "tables"], rows)


@command
def renew(arguments: Namespace) -> None:
    """Make a lease last longer."""
    with hook_of(arguments).get_conn(create=False) as service:
        lease = service.leases.renew(_own(service, arguments), duration(arguments.ttl, "ttl"))
    answer_facts({"lease": lease.id, "until": lease.until.isoformat()})


@command
def drop(arguments: Namespace) -> None:
    """End a lease now."""
    with hook_of(arguments).get_conn(create=False) as service:
        lease = _own(service, arguments)
        service.leases.drop(lease)
    answer_facts({"dropped": lease.id})


def _own(service: EpochService, arguments: Namespace) -> Lease:
    """:raises UnknownName: there is no such live lease. :raises LeaseHeld: it is somebody else's."""
    lease = service.leases.find(arguments.domain, arguments.name)
    if lease is None:
        raise UnknownName(
            f"there is no live lease {arguments.name!r} in domain {arguments.domain!r}.",
            next_step="see `airflow epochs lease list`.",
            lease=arguments.name,
        )
    if lease.owner != arguments.owner:
        raise LeaseHeld(
            f"lease {lease.id!r} is held by {lease.owner!r} until {lease.until.isoformat()}.",
            next_step="name its owner with --owner, if you may end it.",
            lease=lease.id,
            holder=lease.owner,
            until=lease.until,
        )
    return lease


def _facts(lease: Lease) -> dict[str, object]:
    return {
        "lease": lease.id,
        "owner": lease.owner,
        "until": lease.until.isoformat(),
        "barrier": lease.cut.barrier.isoformat(),
        "csn": lease.cut.csn,
        "tables": list(lease.cut.states),
    }


def _short(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
