"""Choose ranges of items, and list the domains of a store."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Kind
from airflow_provider.stores.zookeeper.nodes import is_deleted
from airflow_provider.stores.zookeeper.paths import Paths, decoded
from airflow_provider.stores.zookeeper.records import Records, children
from airflow_provider.stores.zookeeper.session import Deadline, Get, Session

KINDS = frozenset(kind.value for kind in Kind)
_FLIGHT = 50
"""Number of nodes of a domain that are read together."""


def within(start: str | None, end: str | None, reverse: bool) -> Callable[[list[str]], list[str]]:
    """Return the function that chooses ``start <= item < end`` from sorted items."""

    def choose(items: list[str]) -> list[str]:
        low = 0 if start is None else bisect_left(items, start)
        high = len(items) if end is None else bisect_left(items, end)
        chosen = items[low:high]
        return chosen[::-1] if reverse else chosen

    return choose


def domains(session: Session, paths: Paths, records: Records, deadline: Deadline) -> list[DomainName]:
    """Return the domains that have a record, sorted; a folder without records does not count."""
    _, names = session.ask(deadline, [records.sync, children(paths.domains)])
    unsure = [DomainName(decoded(name)) for name in names or []]
    answers = session.ask(deadline, [Get(paths.head(domain)) for domain in unsure])
    heads = {domain: records.see_head(domain, answer) for domain, answer in zip(unsure, answers, strict=True)}
    found = {domain for domain, head in heads.items() if head.csn > 0}  # a commit is a record
    left = {domain: [paths.domain(domain)] for domain in unsure if domain not in found}
    for kinds in (KINDS, None, None):
        left = _below(session, left, kinds, deadline)
    while left:
        flight = {domain: nodes[:_FLIGHT] for domain, nodes in left.items()}
        there = session.ask(deadline, [Get(path) for nodes in flight.values() for path in nodes])
        owners = [domain for domain, nodes in flight.items() for _ in nodes]
        found |= {
            domain
            for domain, answer in zip(owners, there, strict=True)
            if answer is not None and not is_deleted(answer[0])
        }
        left = {
            domain: nodes[_FLIGHT:]
            for domain, nodes in left.items()
            if domain not in found and len(nodes) > _FLIGHT
        }
    return sorted(found)


def _below(
    session: Session, nodes: dict[DomainName, list[str]], names: frozenset[str] | None, deadline: Deadline
) -> dict[DomainName, list[str]]:
    """Return the children of *nodes*, by domain; with *names*, only those with one of these names."""
    answers = iter(session.ask(deadline, [children(path) for paths in nodes.values() for path in paths]))
    return {
        domain: [
            f"{path}/{name}"
            for path in paths
            for name in next(answers) or []
            if names is None or name in names
        ]
        for domain, paths in nodes.items()
    }
