"""What a benchmark prints: figures for programs, progress for people."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence

_began = time.monotonic()


def figure(name: str, value: float) -> None:
    """Print one measured value on a line of its own."""
    text = f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
    print(f"figure {name} {text}", flush=True)


def progress(text: str) -> None:
    """Tell people what is going on."""
    print(f"[{time.monotonic() - _began:6.1f} s] {text}", file=sys.stderr, flush=True)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of *values* that at least the *share* of them do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
