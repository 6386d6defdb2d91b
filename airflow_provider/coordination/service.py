"""Everything opened together: the store, the table formats, the coordinator and the cuts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from airflow_provider.coordination.coordinator import Coordinator
from airflow_provider.coordination.reading.cuts import Cuts
from airflow_provider.coordination.reading.leases import Leases
from airflow_provider.coordination.upkeep.bind import Bound, bind, declaring
from airflow_provider.coordination.upkeep.recover import Recovery, recover
from airflow_provider.coordination.upkeep.retention import Retention
from airflow_provider.domain.alignment import READ_DEFAULTS, Consistency, ReadDefaults
from airflow_provider.domain.clock import Clock
from airflow_provider.domain.cut import Level
from airflow_provider.domain.defaults import DEFAULTS, Defaults
from airflow_provider.domain.errors import InvalidInput, StoreIncompatible, choice
from airflow_provider.domain.schedule import ExplicitInterval, run_interval
from airflow_provider.sources.roots import RootSources
from airflow_provider.stores.base import MetadataStore, StoreCapability
from airflow_provider.stores.factory import catalog_of, local_url, open_store, redacted
from airflow_provider.tables.factory import TableFormats, open_formats


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Where the metadata and the data are.

    :param store_url: URL of the metadata store; may hold a password, so it is not shown.
    :param warehouse: absolute path or URI under which tables keep their files, such as ``file:///data/warehouse``.
    :param catalog_url: URL of the database that holds the tables' pointers, when it is not the store's own; not
        shown either.
    :param require: what the store must offer, whoever opens it.
    :param sources: URLs of the databases that the roots of jobs name, by the id of their connection; not shown.
    :param read_level: isolation of reads that do not name one. :param read_consistency: likewise.
    """

    store_url: str = field(repr=False)
    warehouse: str
    catalog_url: str | None = field(default=None, repr=False)
    require: frozenset[StoreCapability] = frozenset()
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)
    read_level: str = READ_DEFAULTS.level.value
    read_consistency: str = READ_DEFAULTS.consistency.value

    @classmethod
    def local(cls, folder: str | PathLike[str], *, sources: Mapping[str, str] | None = None) -> Self:
        """A store in a SQLite file, ``epochs.db``, and the tables beside it, in *folder*: for work on one host.

        Looks at the folder, and opens nothing.

        :param folder: one that is there; a relative path is seen from the working directory.
        :param sources: as in :class:`Settings`.
        :raises InvalidInput: it is none.
        """
        place = _folder(folder)
        return cls(
            store_url=local_url(place), warehouse=f"file://{place / 'warehouse'}", sources=dict(sources or {})
        )

    @property
    def reading(self) -> ReadDefaults:
        """:raises InvalidInput: a level or consistency that there is not."""
        return ReadDefaults(
            level=choice(Level, self.read_level, "read_level"),
            consistency=choice(Consistency, self.read_consistency, "read_consistency"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochService:
    """An open service; close it, or use it in a ``with`` block."""

    store: MetadataStore
    formats: TableFormats
    coordinator: Coordinator
    cuts: Cuts
    leases: Leases
    retention: Retention
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        require: frozenset[StoreCapability] = frozenset(),
        create: bool = True,
        clock: Clock | None = None,
        random: Random | None = None,
        defaults: Defaults = DEFAULTS,
    ) -> Self:
        """Open what *settings* name.

        :param create: make a store that is a file where there is none; False for who only looks.
        :raises InvalidInput: a URL or warehouse that cannot be understood.
        :raises StoreIncompatible: the store lacks a capability in *require*, or has another schema.
        :raises StoreUnavailable: the store does not answer.
        """
        reading = settings.reading
        require = require | settings.require
        _, swaps = catalog_of(settings.store_url, settings.catalog_url)
        if StoreCapability.CATALOG_SWAP in require and not swaps:
            raise _not_atomic(settings)
        formats = open_formats(settings.store_url, settings.warehouse, settings.catalog_url)
        store = open_store(settings.store_url, require=require, create=create)
        cuts = Cuts(store, formats, clock=clock, random=random, defaults=defaults, reading=reading)
        return cls(
            store=store,
            formats=formats,
            coordinator=Coordinator(store, formats, clock=clock, random=random, defaults=defaults),
            cuts=cuts,
            leases=Leases(store, cuts, clock=clock, random=random, defaults=defaults),
            retention=Retention(store, formats, clock=clock, random=random, defaults=defaults),
            sources=settings.sources,
        )

    def recover(self, domain: str) -> Recovery:
        """Let the catalog's pointers of all tables of *domain* follow the store: see :func:`recover`."""
        return recover(self.coordinator.context, domain)

    def bind(self, domain: str, root: str, interval: ExplicitInterval, *, reason: str, by: str) -> Bound:
        """Let the epoch of *interval* read what the source of *root* has now: see :func:`bind`.

        :param interval: as for ``epoch_run``, such as ``"2024-05-01"``.
        :raises InvalidInput: the interval cannot be read, or nothing is recorded for it.
        """
        cadence = declaring(self.store, domain, root).cadence
        return bind(
            self.coordinator.context,
            domain,
            root,
            run_interval(cadence, explicit=interval),
            RootSources(self.sources),
            reason=reason,
            by=by,
        )

    def close(self) -> None:
        """Give back connections; may be called twice."""
        self.formats.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _folder(value: object) -> Path:
    """:raises InvalidInput: naming ``local``."""
    text = os.fspath(value) if isinstance(value, str | PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text or "://" in text:
        raise InvalidInput(
            field="local",
            value=value,
            expected="the path of a folder, for the store and the tables",
            next_step="give a folder; for a store elsewhere pass settings=Settings(store_url=…, warehouse=…).",
        )
    place = Path(text).absolute()
    if not _is_folder(place):
        raise InvalidInput(
            field="local",
            value=text,
            expected=f"a folder that is there, seen from {Path.cwd()}",
            next_step="make the folder (mkdir -p), or correct the path.",
        )
    return place.resolve() if ".." in place.parts else place


def _is_folder(place: Path) -> bool:
    try:
        return place.is_dir()
    except OSError:  # a name that no folder can have
        return False


def _not_atomic(settings: Settings) -> StoreIncompatible:
    return StoreIncompatible(
        f"the store {redacted(settings.store_url)} is not {StoreCapability.CATALOG_SWAP} "
        f"{redacted(settings.catalog_url)}, which lies elsewhere.",
        next_step="keep the catalog in the store's own database, or do without what asks for it; the docs say what "
        "a reader by catalog sees.",
        missing=(StoreCapability.CATALOG_SWAP,),
    )
