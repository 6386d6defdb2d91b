"""Compute the path of each record, and encode names as parts of a path.

::

    CHROOT/schema                                   version of this layout
    CHROOT/incarnation                              identity of the store
    CHROOT/clock                                    set by every transaction: its time is the servers'
    CHROOT/domains/DOMAIN/head                      last CSN
    CHROOT/domains/DOMAIN/KIND/PARTITION/ITEM       one record
    CHROOT/domains/DOMAIN/segments/NUMBER           commits that were folded
    CHROOT/domains/DOMAIN/checkpoints/NAME          left by clients of format 1
    CHROOT/domains/DOMAIN/turns/NUMBER              a client that waits for the head

Names are percent-encoded byte by byte, all but ASCII letters, digits and ``_-:+=@,~``: ASCII alone, so that
neither ZooKeeper nor kazoo changes a path; one name for one text, since what is encoded is UTF-8 and every
other character is encoded always. The empty text is a lone ``%``. Order is that of the decoded texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from string import ascii_letters, digits
from typing import Any
from urllib.parse import unquote

from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Key, Kind

_PLAIN = frozenset((ascii_letters + digits + "_-:+=@,~").encode())
_EMPTY = "%"
_ENCODED = [chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in range(256)]


@lru_cache(maxsize=16_384)
def encoded(text: str) -> str:
    """Encode *text* as one part of a path; different texts have different parts."""
    return "".join([_ENCODED[byte] for byte in text.encode()]) or _EMPTY


def decoded(part: str) -> str:
    """Decode a part of a path, the inverse of :func:`encoded`."""
    return "" if part == _EMPTY else unquote(part, errors="strict")


@dataclass(frozen=True, slots=True)
class Paths:
    """The paths of a store.

    :param chroot: absolute, without a slash at its end.
    """

    chroot: str

    @property
    def schema(self) -> str:
        return f"{self.chroot}/schema"

    @property
    def incarnation(self) -> str:
        return f"{self.chroot}/incarnation"

    @property
    def clock(self) -> str:
        return f"{self.chroot}/clock"

    @property
    def domains(self) -> str:
        return f"{self.chroot}/domains"

    def domain(self, domain: DomainName) -> str:
        return f"{self.chroot}/domains/{encoded(domain)}"

    def head(self, domain: DomainName) -> str:
        return f"{self.domain(domain)}/head"

    def folder(self, domain: DomainName, name: str) -> str:
        """Return a folder of the domain that is not a kind of records: segments, turns."""
        return f"{self.domain(domain)}/{name}"

    def partition(self, domain: DomainName, kind: Kind, partition: str) -> str:
        return f"{self.domain(domain)}/{kind.value}/{encoded(partition)}"

    def record(self, key: Key[Any]) -> str:
        return _record(self.chroot, key)

    def parents(self, path: str) -> Sequence[str]:
        """Return the nodes above *path* and below the folder of all domains, the uppermost first."""
        return _down_to(self.domains, path.rpartition("/")[0])


@lru_cache(maxsize=16_384)
def _record(chroot: str, key: Key[Any]) -> str:
    parts = encoded(key.domain), key.kind.value, encoded(key.partition), encoded(key.item)
    return f"{chroot}/domains/{'/'.join(parts)}"


@lru_cache(maxsize=16_384)
def _down_to(top: str, folder: str) -> tuple[str, ...]:
    """Return the nodes below *top*, down to *folder*."""
    if folder == top:
        return ()
    parts = folder.removeprefix(f"{top}/").split("/")
    return tuple(f"{top}/{'/'.join(parts[: depth + 1])}" for depth in range(len(parts)))
