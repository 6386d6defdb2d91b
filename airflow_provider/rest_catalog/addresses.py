"""Addresses of cuts as engines give them: in the property ``warehouse`` of a catalog, or as a namespace.

An address is the name of a domain, with options like those of a URL::

    default
    default?at=2024-05-02T00:00:00Z
    default?tables=flights,airports&ttl=6h
    default?lease=report

Nothing in it is escaped: a client escapes the whole of it. So no name in it may have the characters ``?&,``.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Self

from airflow_provider.domain.cut import Cut
from airflow_provider.domain.durations import duration
from airflow_provider.domain.error_families import InvalidInput
from airflow_provider.domain.identifiers import (
    DomainName,
    LeaseId,
    TableName,
    domain_name,
    lease_id,
    table_name,
)
from airflow_provider.domain.interval import micros
from airflow_provider.domain.lease import Lease
from airflow_provider.domain.schedule import run_barrier

_OPTIONS = ("tables", "at", "max_lag", "ttl", "lease")


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """A cut that an engine asks for.

    :param tables: tables of the cut; empty for all tables that are computed regularly.
    :param at: the greatest barrier wanted; None for the newest that all tables have reached.
    :param max_lag: how much earlier a slower full table may be read; None if it may not.
    :param ttl: time for which the cut is held; None for the store's default.
    :param lease: a live lease, whose cut is wanted; it excludes the other options.
    """

    domain: DomainName
    tables: tuple[TableName, ...] = ()
    at: datetime | None = None
    max_lag: timedelta | None = None
    ttl: timedelta | None = None
    lease: LeaseId | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of an address.

        :raises InvalidInput: names the option that is unknown, given twice, or wrong.
        """
        name, _, query = text.partition("?")
        options = _options(query)
        if "lease" in options and len(options) > 1:
            raise InvalidInput(
                field="lease",
                value=text,
                expected="no other option: the lease says which tables it holds, at which barrier, for how long",
            )
        listed, at, lease = options.get("tables"), options.get("at"), options.get("lease")
        return cls(
            domain=domain_name(name),
            tables=tuple(map(table_name, listed.split(","))) if listed is not None else (),
            at=None if at is None else _time(at),
            max_lag=duration(options.get("max_lag"), "max_lag"),
            ttl=duration(options.get("ttl"), "ttl"),
            lease=None if lease is None else lease_id(lease),
        )


def _time(text: str) -> datetime:
    """Parse a time, also with small letters: Trino writes names of schemas so."""
    return run_barrier(explicit=text.upper() if text[:1].isdigit() else text)


def _options(query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in query.split("&") if query else ():
        option, equals, value = part.partition("=")
        if option not in _OPTIONS or not equals or option in found:
            raise InvalidInput(
                field="address",
                value=part,
                expected=f"option=value with one of {', '.join(_OPTIONS)}, each once",
                next_step="such as default?at=2024-05-02T00:00:00Z&ttl=6h",
            )
        found[option] = value
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Prefix:
    """A cut that a lease holds, as the prefix of a client's paths: it stays this cut, or there is an error.

    The lease's name alone would not do: after its end, or in a restored store, it may be taken for another cut.

    :param cut: what :func:`identity` returns for the cut.
    """

    domain: DomainName
    lease: LeaseId
    cut: str

    @classmethod
    def of(cls, lease: Lease) -> Self:
        """Return the prefix of the cut that *lease* holds."""
        return cls(domain=lease.cut.domain, lease=lease.id, cut=identity(lease.cut))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text that a client has from :meth:`__str__`.

        :raises InvalidInput: *text* is another one.
        """
        try:
            said = urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
            domain, lease, cut = said.split("\n")
            return cls(domain=domain_name(domain), lease=lease_id(lease), cut=cut)
        except (ValueError, InvalidInput) as error:
            raise InvalidInput(
                field="prefix",
                value=text,
                expected="the prefix that /v1/config has answered",
                next_step="give the catalog's address without a path of your own; the client asks for the prefix.",
            ) from error

    def __str__(self) -> str:
        said = "\n".join((self.domain, self.lease, self.cut)).encode()
        return urlsafe_b64encode(said).rstrip(b"=").decode()


def identity(cut: Cut) -> str:
    """Return a text that is another one for each cut: of other tables, barriers or commits, or of a restored store."""
    tables = sorted((name, micros(state.barrier)) for name, state in cut.states.items())
    said = repr((cut.incarnation, cut.csn, micros(cut.barrier), tables))
    return blake2b(said.encode(), digest_size=16).hexdigest()
