"""``airflow epochs wait``."""

from __future__ import annotations

import sys
from argparse import Namespace
from datetime import datetime, timedelta

from airflow_provider.cli.answer import answer, facts, moment
from airflow_provider.cli.command import command, hook_of
from airflow_provider.coordination.commits.similar_names import meant
from airflow_provider.coordination.reading.resolve import names_of
from airflow_provider.coordination.reading.wait import check, wait_for
from airflow_provider.domain.durations import duration
from airflow_provider.domain.errors import InvalidInput, NotReady, UnknownName
from airflow_provider.domain.identifiers import domain_name
from airflow_provider.domain.records import table_key
from airflow_provider.domain.schedule import run_barrier
from airflow_provider.stores.base import MetadataReader

TIMED_OUT = 3
"""Exit code of a wait that has reached its time-out."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


@command
def wait(arguments: Namespace) -> None:
    """Wait until tables have reached a barrier."""
    barrier, timeout = run_barrier(explicit=_given(arguments.at)), duration(arguments.timeout, "--timeout")
    timeout = timeout or timedelta()
    with hook_of(arguments).get_reader() as reader:
        _refuse_in_vain(reader, arguments, barrier)
        first = check(reader, arguments.domain, arguments.tables, barrier)
        if not first.ready:
            sys.stderr.write(f"waiting for {first}\n")
        try:
            found = wait_for(reader, arguments.domain, arguments.tables, barrier, timeout=timeout)
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        except NotReady as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            raise SystemExit(TIMED_OUT) from error
    told = {
        "domain": arguments.domain,
        "tables": list(dict.fromkeys(arguments.tables)),
        "barrier": found.barrier.isoformat(),
        "csn": found.csn,
    }
    seen = told | {"tables": ", ".join(told["tables"]), "barrier": f"{moment(found.barrier)} UTC"}
    answer(
        arguments, told, facts({("CSN" if name == "csn" else name): value for name, value in seen.items()})
    )


def _given(text: str) -> str:
    """:raises InvalidInput: *text* is empty, which names no barrier."""
    if not text.strip():
        raise InvalidInput(field="--at", value=text, expected="a barrier, such as 2013-02-08T00:00:00+00:00")
    return text


def _refuse_in_vain(reader: MetadataReader, arguments: Namespace, barrier: datetime) -> None:
    """Refuse what no wait would end.

    :raises UnknownName: a table that no job has registered. :raises InvalidInput: not a barrier of a table's calendar.
    """
    domain = domain_name(arguments.domain)
    keys = {name: table_key(domain, name) for name in names_of(arguments.tables)}
    reading = reader.read(domain, list(keys.values()))
    for name, key in keys.items():
        stamped = reading.get(key)
        if stamped is None:
            raise UnknownName.of_table(name, domain, meant=meant(reader, domain, name))
        stamped.record.cadence.ending_at(barrier)
