"""``python -m demo.readers FAMILY --reader NAME --period SECONDS``: read until SIGTERM."""

from __future__ import annotations

import argparse
import importlib


def main() -> None:
    """Run one reader process."""
    parser = argparse.ArgumentParser(prog="demo.readers")
    parser.add_argument("family", choices=["epochs", "catalog", "words", "twin", "restated", "twin_restated"])
    parser.add_argument("--reader", required=True, help="its name in the log")
    parser.add_argument(
        "--period", type=float, required=True, help="seconds from one read's start to the next's"
    )
    given = parser.parse_args()
    family = importlib.import_module(f"demo.readers.{given.family}")
    family.read_all_the_time(reader=given.reader, period_s=given.period)


if __name__ == "__main__":
    main()
