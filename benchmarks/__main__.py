"""Measure what the docs claim about speed: ``python -m benchmarks``; see docs/explanation/performance.md."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping

from benchmarks import (
    against,
    cascade,
    catalog,
    compact,
    cut,
    files,
    group,
    growth,
    handover,
    keep,
    page,
    parse,
    protocol,
    publish,
    read,
    removed,
    share,
    stale,
    starve,
    swap,
    swap_reads,
    waiters,
    wake,
    write,
)
from benchmarks.figures import progress
from benchmarks.sizes import Size
from benchmarks.stores import STORES, Store, place

PARTS: Mapping[str, Callable[[Store, Size], None]] = {
    "protocol": protocol.measure,
    "wake": wake.measure,
    "waiters": waiters.measure,
    "publish": publish.measure,
    "starve": starve.measure,
    "cut": cut.measure,
    "swap": swap.measure,
    "swap_reads": swap_reads.measure,
    "group": group.measure,
    "stale": stale.measure,
}
SLOW: Mapping[str, Callable[[Store, Size], None]] = {"cut": cut.measure_slow}
"""What takes too long for every day."""
ONCE: Mapping[str, Callable[[Size], None]] = {
    "cascade": cascade.measure,
    "catalog": catalog.measure,
    "compact": compact.measure,
    "files": files.measure,
    "group_iceberg": group.measure_iceberg,
    "growth": growth.measure,
    "handover": handover.measure,
    "keep": keep.measure,
    "page": page.measure,
    "parse": parse.measure,
    "read": read.measure,
    "first_row": read.measure_first_row,
    "object_store": read.measure_object_store,
    "removed": removed.measure,
    "share": share.measure,
    "swap_iceberg": swap.measure_iceberg,
    "write": write.measure,
    "describe": write.measure_describe,
}
"""What is measured on SQLite only: the work of the table format and of Spark, not a store's."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--stores", nargs="+", choices=sorted(STORES))
    parser.add_argument("--parts", nargs="+", choices=[*PARTS, *ONCE])
    parser.add_argument("--slow", action="store_true", help="measure what takes long, and nothing else")
    parser.add_argument("--smallest", action="store_true", help="run every line; the figures mean nothing")
    parser.add_argument(
        "--against", metavar="COMMIT", help="measure begin and publish by turns with a commit's"
    )
    parser.add_argument("--only", metavar="PATTERN", help="with --against: figures such as 'publish.*' only")
    parser.add_argument("--at-most", metavar="RATIO", type=float, help="with --against: fail above it; 1.1")
    chosen = parser.parse_args()
    size = Size.SMALLEST if chosen.smallest else Size.FULL
    if chosen.against is None and (chosen.only or chosen.at_most):
        parser.error("--only and --at-most belong to --against")
    if chosen.against is not None:
        if chosen.parts or chosen.slow:
            parser.error(
                "--against measures begin and publish: it takes --only, and neither --parts nor --slow"
            )
        sys.exit(_against(chosen, size))
    chosen.stores = chosen.stores or list(STORES)
    parts = SLOW if chosen.slow else PARTS
    wanted = chosen.parts or [*parts, *([] if chosen.slow else ONCE)]
    progress(f"measuring on {place()}")
    for name in chosen.stores if parts.keys() & set(wanted) else []:
        with STORES[name]() as store:
            progress(f"{name} is running")
            for part in wanted:
                if part in parts:
                    parts[part](store, size)
    for part in wanted:
        if part in ONCE:
            ONCE[part](size)


def _against(chosen: argparse.Namespace, size: Size) -> int:
    result = against.Result()
    stores, only = chosen.stores or against.STORES, chosen.only or "*"
    with against.tree_of(chosen.against) as tree:
        progress(f"measuring on {place()} against {against.resolved(chosen.against)}")
        for name in stores:
            if against.wanted(name, only):
                with STORES[name]() as store:
                    progress(f"{name} is running")
                    result.add(against.compare(store, tree, only, size))
    return against.report(result, chosen.at_most or size.of(against.AT_MOST, math.inf))


if __name__ == "__main__":
    main()
