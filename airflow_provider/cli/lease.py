"""``airflow epochs lease …``."""

from __future__ import annotations

from argparse import Namespace

from rich.console import RenderableType

from airflow_provider.cli.answer import answer, block, facts, moment, show, text
from airflow_provider.cli.command import command, hook_of
from airflow_provider.coordination.service import EpochService
from airflow_provider.domain.durations import duration
from airflow_provider.domain.errors import InvalidInput, LeaseHeld, UnknownName
from airflow_provider.domain.lease import Lease


@command
def leases(arguments: Namespace) -> None:
    """List the live leases."""
    with hook_of(arguments).get_conn(create=False) as service:
        found = service.leases.all(arguments.domain)
    told = [_facts(lease) for lease in found]
    answer(arguments, told, *(_block(lease) for lease in found) if found else [text("no live leases")])


@command
def renew(arguments: Namespace) -> None:
    """Extend a lease."""
    with hook_of(arguments).get_conn(create=False) as service:
        lease = service.leases.renew(_own(service, arguments), duration(arguments.ttl, "ttl"))
    show(facts({"lease": lease.id, "until": lease.until.isoformat()}))


@command
def release(arguments: Namespace) -> None:
    """Let a lease hold some of its tables no longer."""
    with hook_of(arguments).get_conn(create=False) as service:
        lease = _own(service, arguments)
        strange = [name for name in arguments.tables if name not in lease.cut.states]
        if strange:
            raise InvalidInput(
                field="tables",
                value=strange,
                expected=f"tables that lease {lease.id!r} holds: {', '.join(sorted(lease.cut.states))}",
                next_step="see `airflow epochs lease list`.",
            )
        left = service.leases.release(lease, arguments.tables)
    held = "nothing: it has ended" if left is None else ", ".join(left.cut.states)
    show(facts({"lease": lease.id, "released": ", ".join(dict.fromkeys(arguments.tables)), "holds": held}))


@command
def drop(arguments: Namespace) -> None:
    """End a lease now."""
    with hook_of(arguments).get_conn(create=False) as service:
        lease = _own(service, arguments)
        service.leases.drop(lease)
    show(facts({"dropped": lease.id}))


def _own(service: EpochService, arguments: Namespace) -> Lease:
    """Return the lease that the arguments name.

    :raises UnknownName: there is no such live lease. :raises LeaseHeld: it has another owner.
    """
    lease = service.leases.find(arguments.domain, arguments.name)
    if lease is None:
        raise UnknownName(
            f"there is no live lease {arguments.name!r} in domain {arguments.domain!r}.",
            next_step="see `airflow epochs lease list`.",
            lease=arguments.name,
        )
    if lease.owner != arguments.owner:
        raise LeaseHeld.of(
            lease.id, lease.owner, lease.until, next_step="name its owner with --owner, if you may end it."
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


def _block(lease: Lease) -> RenderableType:
    """Lay out a block for a lease, not a row: its name, owner and tables may each be as wide as the terminal."""
    told = {
        "owner": lease.owner,
        "until": f"{moment(lease.until, seconds=True)} UTC",
        "cut": f"barrier {moment(lease.cut.barrier)} UTC, CSN {lease.cut.csn}",
        "tables": ", ".join(lease.cut.states),
    }
    return block(lease.id, facts(told))
