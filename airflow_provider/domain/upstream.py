"""Behaviour of waiting tasks towards what they wait for."""

from __future__ import annotations

from enum import StrEnum


class OnUpstreamFailure(StrEnum):
    """Behaviour of a waiting task once the newest attempt at an awaited epoch has failed."""

    WAIT = "wait"
    """Wait on: a retry or a cleared task may bring it."""
    FAIL = "fail"
    """Fail at once, with an error that names the epoch."""
