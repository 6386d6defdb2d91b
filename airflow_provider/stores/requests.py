"""Check and encode a whole transaction, as every store does before it sends anything."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from airflow_provider.domain.errors import InvalidInput, StoreIncompatible
from airflow_provider.domain.format_marks import FORMAT
from airflow_provider.domain.identifiers import DomainName, validate_text
from airflow_provider.domain.records import Key, Kind
from airflow_provider.domain.version import CommitRecord
from airflow_provider.stores.base import (
    FIRST_CHARACTER,
    Absent,
    CatalogSwap,
    Delete,
    Exists,
    Put,
    SameStore,
    StoreCapability,
    Transaction,
    commit_key,
)
from airflow_provider.stores.codec import encode, older_store, without_later

MAX_KEY_BYTES = 1024
"""Longest part of a key, in bytes of UTF-8."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedTransaction:
    """Transaction that is valid in itself, encoded.

    :param puts: each record to write, with its body.
    :param commit: the commit record with its body, when the transaction takes a number.
    """

    domain: DomainName
    store: SameStore | None
    requires: tuple[Exists | Absent, ...]
    puts: tuple[tuple[Put, bytes], ...]
    deletes: tuple[Key[Any], ...]
    swaps: tuple[CatalogSwap, ...]
    commit: tuple[CommitRecord, bytes] | None


def checked(
    transaction: Transaction, capabilities: Collection[StoreCapability], number: int = FORMAT
) -> CheckedTransaction:
    """Check and encode *transaction*.

    :param number: the store's format.
    :raises InvalidInput: names the invalid part.
    :raises StoreIncompatible: a record needs a newer format than the store has.
    """
    updated: set[Key[Any] | tuple[str, str]] = set()
    puts, deletes, swaps = [], [], []
    for requirement in transaction.requires:
        check_keys(transaction.domain, [requirement.key])
    for update in transaction.updates:
        target = (update.namespace, update.table) if isinstance(update, CatalogSwap) else update.key
        if target in updated:
            raise InvalidInput(field="updates", value=target, expected="at most one update of each key")
        updated.add(target)
        match update:
            case CatalogSwap():
                swaps.append(update)
            case Put(key, record):
                _check_update(transaction.domain, key)
                puts.append((update, encode(key, record, number)))
            case Delete(key):
                _check_update(transaction.domain, key)
                deletes.append(key)
    if swaps and StoreCapability.CATALOG_SWAP not in capabilities:
        raise InvalidInput(
            field="updates",
            value=swaps[0],
            expected=f"no catalog swap: this store is not {StoreCapability.CATALOG_SWAP}",
        )
    return CheckedTransaction(
        domain=transaction.domain,
        store=transaction.store,
        requires=transaction.requires,
        puts=tuple(puts),
        deletes=tuple(deletes),
        swaps=tuple(swaps),
        commit=_encoded_commit(transaction, number),
    )


def checked_again(
    transaction: Transaction,
    capabilities: Collection[StoreCapability],
    number: int,
    look: Callable[[], int],
) -> CheckedTransaction:
    """Check and encode *transaction*; if it needs a newer format, look whether the store was upgraded meanwhile.

    So does a record that would lose an optional field in this format: in an upgraded store the field has to stay.

    :param number: the store's format when the client last looked.
    :param look: reads the store's format now.
    :raises InvalidInput: names the invalid part.
    :raises StoreIncompatible: a record needs a newer format than the store has.
    """
    try:
        request = checked(transaction, capabilities, number)
    except StoreIncompatible:
        if (found := look()) <= number:
            raise
        return checked(transaction, capabilities, found)
    if number < FORMAT and _has_later_fields(transaction, number) and (found := look()) > number:
        return checked(transaction, capabilities, found)
    return request


def _has_later_fields(transaction: Transaction, number: int) -> bool:
    """Return whether a field of a later format than *number* has another value than its default."""
    records = [update.record for update in transaction.updates if isinstance(update, Put)]
    if transaction.number is not None:
        records.append(transaction.number.commit)
    return any(without_later(record, number)[1] for record in records)


def require_format(found: int, expected: int, what: str) -> None:
    """Refuse a feature that needs a store of the format *expected*, before any work is done.

    :param found: the store's format.
    :param what: the feature, subject of the message.
    :raises StoreIncompatible: the store has an older format; says what to run.
    """
    if found < expected:
        raise older_store(what, found, expected)


def check_pointers(names: Sequence[str], capabilities: Collection[StoreCapability]) -> None:
    """Check that the store can read the pointers of the catalog tables *names*.

    :raises InvalidInput: names are given, and the store has no catalog.
    """
    if names and StoreCapability.CATALOG_SWAP not in capabilities:
        raise InvalidInput(
            field="pointers",
            value=names[0],
            expected=f"no pointer: this store is not {StoreCapability.CATALOG_SWAP}",
        )


def check_keys(domain: DomainName, keys: Sequence[Key[Any]]) -> None:
    """Check that *keys* belong to *domain* and that every store can hold them.

    :raises InvalidInput: a key of another domain, or a key that some store cannot hold.
    """
    check_text("domain", domain, empty=False)
    for key in keys:
        if key.domain != domain:
            raise InvalidInput(field="key", value=key, expected=f"a key of the domain {domain!r}")
        if not isinstance(key.kind, Kind):
            raise InvalidInput(
                field="kind", value=key.kind, expected=f"one of {[kind.value for kind in Kind]}"
            )
        check_text("partition", key.partition, empty=True)
        check_text("item", key.item, empty=False)


def check_text(field: str, value: object, *, empty: bool) -> None:
    """Check *value*, a part of a key.

    :param empty: the empty text is allowed.
    :raises InvalidInput: not a text, empty, longer than :data:`MAX_KEY_BYTES`, with NUL or half a surrogate pair.
    """
    if value.__class__ is str and _is_plain(value) and (value or empty):
        return
    if not validate_text(value, field, limit=MAX_KEY_BYTES) and not empty:
        raise InvalidInput(field=field, value=value, expected="text that is not empty")


@lru_cache(maxsize=16_384)
def _is_plain(value: str) -> bool:
    """Return whether *value* is short, printable ASCII, as nearly all keys are: then no other check is needed."""
    return value.isascii() and value.isprintable() and len(value) <= MAX_KEY_BYTES


def check_scan(
    domain: DomainName, partition: str, start: str | None, end: str | None, limit: int | None
) -> None:
    """Check the arguments of a scan.

    :raises InvalidInput: a name or a bound that no key can have, or a limit below 1.
    """
    check_text("domain", domain, empty=False)
    check_text("partition", partition, empty=True)
    for name, bound in (("start", start), ("end", end)):
        if bound is not None:
            # A page begins right behind the last item of the page before (base.pages), which may be the longest name.
            check_text(name, bound.removesuffix(FIRST_CHARACTER), empty=True)
    if limit is not None and limit < 1:
        raise InvalidInput(
            field="limit", value=limit, expected="a number of records above 0, or None for all"
        )


def _check_update(domain: DomainName, key: Key[Any]) -> None:
    check_keys(domain, [key])
    if key.kind is Kind.COMMIT:
        raise InvalidInput(
            field="updates",
            value=key,
            expected="no update of a commit record: they are appended by Number only",
        )


def _encoded_commit(transaction: Transaction, number: int) -> tuple[CommitRecord, bytes] | None:
    if transaction.number is None:
        return None
    commit = transaction.number.commit
    return commit, encode(commit_key(transaction.domain, 0), commit, number)
