"""Consistent cascades of Spark jobs under Apache Airflow: epochs, barriers, atomic publish, consistent cuts.

The front door: every name that pipelines, jobs, readers and tests need, from one place. A name loads its module when
it is first used, so that importing this package loads nothing else, and a DAG file neither Spark nor Arrow. Operators,
sensors, hooks and triggers stay in the modules where Airflow looks for them; all other modules are private.
docs/decisions/front-door.md says why.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider.client.connecting import connect
    from airflow_provider.client.cuts import CutTable, ReadableCut
    from airflow_provider.client.epochs import Epochs
    from airflow_provider.client.leases import HeldLease
    from airflow_provider.client.restatements import Restatement
    from airflow_provider.coordination.commits.places import WrongCatalog, WrongWarehouse
    from airflow_provider.coordination.commits.sealed import DomainMoved, DomainMoving
    from airflow_provider.coordination.reading.differences import Difference
    from airflow_provider.coordination.reading.queries import Engine
    from airflow_provider.coordination.service import Settings
    from airflow_provider.domain.checks import (
        Check,
        accepted,
        in_range,
        is_true,
        no_rows,
        not_null,
        row_count,
        unique,
    )
    from airflow_provider.domain.columns import (
        ColumnChange,
        add,
        drop,
        rename,
        widen,
    )
    from airflow_provider.domain.completeness import (
        Condition,
        ids_reached,
        marker,
        min_files,
        none_needed,
        quiet_for,
    )
    from airflow_provider.domain.epoch import Published
    from airflow_provider.domain.errors import (
        CheckFailed,
        Conflict,
        DependentReaders,
        EpochBusy,
        EpochError,
        Fenced,
        FinalError,
        ForeignCommit,
        InvalidInput,
        LeaseExpired,
        LeaseHeld,
        MissingLibrary,
        NotReady,
        OutcomeUnknown,
        PackageTooOld,
        RecordFull,
        RetryableError,
        SchemaMismatch,
        SourceUnavailable,
        StoreIncompatible,
        StoreReplaced,
        StoreUnavailable,
        TopologyError,
        Unavailable,
        UnknownConnection,
        UnknownName,
    )
    from airflow_provider.domain.interval import Cadence, Interval
    from airflow_provider.domain.keep import Keep
    from airflow_provider.domain.outdated import Outdated
    from airflow_provider.domain.owner import Owner
    from airflow_provider.domain.read_options import Align, Consistency, Level
    from airflow_provider.domain.session import Session
    from airflow_provider.domain.source_declarations import (
        FileSource,
        IcebergSource,
        Late,
        PostgresSource,
    )
    from airflow_provider.domain.table_kind import TableKind
    from airflow_provider.domain.topology import (
        Determinism,
        Edge,
        Group,
        Job,
        OnForeignCommit,
        OnRerun,
        OnUpstreamRevision,
        Table,
        increment,
        previous,
        state,
        window,
    )
    from airflow_provider.spark.attempt_run import EpochRun
    from airflow_provider.spark.computed import AlreadyComputed
    from airflow_provider.spark.epoch_run import (
        epoch_participant,
        epoch_run,
        epoch_runs,
        shared_epoch_run,
    )
    from airflow_provider.spark.shared_run import ParticipantRun, SharedRun
    from airflow_provider.stores.base import StoreCapability
    from airflow_provider.tables.errors import TableDropped, TableRecreated, TablesAhead, WarehouseUnavailable
    from airflow_provider.testing.local_epochs import LocalEpochs

__version__ = "0.1.0.dev0"

_HOMES = {
    # Declarations
    "Table": "domain.topology",
    "Job": "domain.topology",
    "Group": "domain.topology",
    "increment": "domain.topology",
    "window": "domain.topology",
    "state": "domain.topology",
    "previous": "domain.topology",
    "Edge": "domain.topology",
    "Cadence": "domain.interval",
    "Interval": "domain.interval",
    "TableKind": "domain.table_kind",
    "OnRerun": "domain.topology",
    "OnUpstreamRevision": "domain.topology",
    "OnForeignCommit": "domain.topology",
    "Determinism": "domain.topology",
    # Sources
    "FileSource": "domain.source_declarations",
    "IcebergSource": "domain.source_declarations",
    "PostgresSource": "domain.source_declarations",
    "marker": "domain.completeness",
    "min_files": "domain.completeness",
    "quiet_for": "domain.completeness",
    "ids_reached": "domain.completeness",
    "none_needed": "domain.completeness",
    "Condition": "domain.completeness",
    "Late": "domain.source_declarations",
    # Checks
    "row_count": "domain.checks",
    "not_null": "domain.checks",
    "unique": "domain.checks",
    "in_range": "domain.checks",
    "accepted": "domain.checks",
    "no_rows": "domain.checks",
    "is_true": "domain.checks",
    "Check": "domain.checks",
    # Column changes
    "add": "domain.columns",
    "rename": "domain.columns",
    "widen": "domain.columns",
    "drop": "domain.columns",
    "ColumnChange": "domain.columns",
    # Computing epochs
    "epoch_run": "spark.epoch_run",
    "epoch_runs": "spark.epoch_run",
    "shared_epoch_run": "spark.epoch_run",
    "epoch_participant": "spark.epoch_run",
    "EpochRun": "spark.attempt_run",
    "SharedRun": "spark.shared_run",
    "ParticipantRun": "spark.shared_run",
    "Owner": "domain.owner",
    "Published": "domain.epoch",
    "Settings": "coordination.service",
    "StoreCapability": "stores.base",
    # Reading
    "connect": "client.connecting",
    "Epochs": "client.epochs",
    "ReadableCut": "client.cuts",
    "CutTable": "client.cuts",
    "HeldLease": "client.leases",
    "Restatement": "client.restatements",
    "Difference": "coordination.reading.differences",
    "Session": "domain.session",
    "Align": "domain.read_options",
    "Consistency": "domain.read_options",
    "Keep": "domain.keep",
    "Level": "domain.read_options",
    "Engine": "coordination.reading.queries",
    "Outdated": "domain.outdated",
    # Tests
    "LocalEpochs": "testing.local_epochs",
    # Errors
    "EpochError": "domain.errors",
    "RetryableError": "domain.errors",
    "FinalError": "domain.errors",
    "OutcomeUnknown": "domain.errors",
    "Conflict": "domain.errors",
    "EpochBusy": "domain.errors",
    "LeaseHeld": "domain.errors",
    "NotReady": "domain.errors",
    "PackageTooOld": "domain.errors",
    "SourceUnavailable": "domain.errors",
    "StoreUnavailable": "domain.errors",
    "UnknownConnection": "domain.errors",
    "DependentReaders": "domain.errors",
    "Fenced": "domain.errors",
    "ForeignCommit": "domain.errors",
    "InvalidInput": "domain.errors",
    "LeaseExpired": "domain.errors",
    "MissingLibrary": "domain.errors",
    "RecordFull": "domain.errors",
    "SchemaMismatch": "domain.errors",
    "StoreIncompatible": "domain.errors",
    "StoreReplaced": "domain.errors",
    "TopologyError": "domain.errors",
    "Unavailable": "domain.errors",
    "UnknownName": "domain.errors",
    "CheckFailed": "domain.errors",
    "AlreadyComputed": "spark.computed",
    "DomainMoved": "coordination.commits.sealed",
    "DomainMoving": "coordination.commits.sealed",
    "TableDropped": "tables.errors",
    "TableRecreated": "tables.errors",
    "TablesAhead": "tables.errors",
    "WarehouseUnavailable": "tables.errors",
    "WrongCatalog": "coordination.commits.places",
    "WrongWarehouse": "coordination.commits.places",
}
"""The module of each name, in the groups of docs/reference/python.md."""

__all__ = [
    "Align",
    "AlreadyComputed",
    "Cadence",
    "Check",
    "CheckFailed",
    "ColumnChange",
    "Condition",
    "Conflict",
    "Consistency",
    "CutTable",
    "DependentReaders",
    "Determinism",
    "Difference",
    "DomainMoved",
    "DomainMoving",
    "Edge",
    "Engine",
    "EpochBusy",
    "EpochError",
    "EpochRun",
    "Epochs",
    "Fenced",
    "FileSource",
    "FinalError",
    "ForeignCommit",
    "Group",
    "HeldLease",
    "IcebergSource",
    "Interval",
    "InvalidInput",
    "Job",
    "Keep",
    "Late",
    "LeaseExpired",
    "LeaseHeld",
    "Level",
    "LocalEpochs",
    "MissingLibrary",
    "NotReady",
    "OnForeignCommit",
    "OnRerun",
    "OnUpstreamRevision",
    "OutcomeUnknown",
    "Outdated",
    "Owner",
    "PackageTooOld",
    "ParticipantRun",
    "PostgresSource",
    "Published",
    "ReadableCut",
    "RecordFull",
    "Restatement",
    "RetryableError",
    "SchemaMismatch",
    "Session",
    "Settings",
    "SharedRun",
    "SourceUnavailable",
    "StoreCapability",
    "StoreIncompatible",
    "StoreReplaced",
    "StoreUnavailable",
    "Table",
    "TableDropped",
    "TableKind",
    "TableRecreated",
    "TablesAhead",
    "TopologyError",
    "Unavailable",
    "UnknownConnection",
    "UnknownName",
    "WarehouseUnavailable",
    "WrongCatalog",
    "WrongWarehouse",
    "accepted",
    "add",
    "connect",
    "drop",
    "epoch_participant",
    "epoch_run",
    "epoch_runs",
    "ids_reached",
    "in_range",
    "increment",
    "is_true",
    "marker",
    "min_files",
    "no_rows",
    "none_needed",
    "not_null",
    "previous",
    "quiet_for",
    "rename",
    "row_count",
    "shared_epoch_run",
    "state",
    "unique",
    "widen",
    "window",
]


def __getattr__(name: str) -> Any:
    """Load the module of *name*, and keep the object: the next use costs nothing.

    :raises AttributeError: the package offers no such name.
    """
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}; dir(airflow_provider) lists its names"
        )
    found = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
