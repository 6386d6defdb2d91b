"""Measure what the docs claim about speed: ``python -m benchmarks``; see docs/explanation/performance.md."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from benchmarks import cut, protocol, publish, wake
from benchmarks.figures import progress
from benchmarks.stores import STORES, Store, place

PARTS: Mapping[str, Callable[[Store], None]] = {
    "protocol": protocol.measure,
    "wake": wake.measure,
    "publish": publish.measure,
    "cut": cut.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--stores", nargs="+", choices=sorted(STORES), default=list(STORES))
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    chosen = parser.parse_args()
    progress(f"measuring on {place()}")
    for name in chosen.stores:
        with STORES[name]() as store:
            progress(f"{name} is running")
            for part in chosen.parts:
                PARTS[part](store)


if __name__ == "__main__":
    main()
