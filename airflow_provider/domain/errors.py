"""Errors, in families by the caller's next step (protocol section 10).

* :class:`RetryableError`: wait or try again; nothing is wrong with the request.
* :class:`FinalError`: stop; the same request will fail again.
* :class:`OutcomeUnknown`: ask the store; neither repeat blindly nor undo.

Each class declares its attributes (``error.details`` has them as a mapping), and the message ends with the next step
to take. Where several places say the same, a class method has the words.
"""

from __future__ import annotations

from airflow_provider.domain.error_families import (
    EpochError,
    FinalError,
    InvalidInput,
    OutcomeUnknown,
    RetryableError,
    choice,
    shown,
)
from airflow_provider.domain.final_errors import (
    CheckFailed,
    DependentReaders,
    Fenced,
    ForeignCommit,
    LeaseExpired,
    MissingLibrary,
    RecordFull,
    SchemaMismatch,
    StoreIncompatible,
    StoreReplaced,
    TopologyError,
    Unavailable,
    UnknownName,
)
from airflow_provider.domain.retryable_errors import (
    Conflict,
    EpochBusy,
    LeaseHeld,
    NotReady,
    PackageTooOld,
    SourceUnavailable,
    StoreUnavailable,
    UnknownConnection,
)

__all__ = [
    "CheckFailed",
    "Conflict",
    "DependentReaders",
    "EpochBusy",
    "EpochError",
    "Fenced",
    "FinalError",
    "ForeignCommit",
    "InvalidInput",
    "LeaseExpired",
    "LeaseHeld",
    "MissingLibrary",
    "NotReady",
    "OutcomeUnknown",
    "PackageTooOld",
    "RecordFull",
    "RetryableError",
    "SchemaMismatch",
    "SourceUnavailable",
    "StoreIncompatible",
    "StoreReplaced",
    "StoreUnavailable",
    "TopologyError",
    "Unavailable",
    "UnknownConnection",
    "UnknownName",
    "choice",
    "shown",
]
