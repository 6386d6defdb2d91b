"""SRC1 to SRC4 without this package: a job reads what lies there when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.anomalies.plain.cascade import Cascade, observed
from tests.anomalies.verdicts import Observed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def src1(cascade: Cascade) -> Observed:
    """A second file of epoch 1 lands when epoch 1 is there, then epoch 2 runs; R must see every file's row."""
    _land(cascade, "1", 1)
    _load(cascade, "d", 1)
    _land(cascade, "1", 2)
    _land(cascade, "2", 3)
    _load(cascade, "d", 2)
    (d,) = cascade.see("d")
    return observed(d == {1: [1, 2], 2: [3]}, d=d, landed={1: [1, 2], 2: [3]})


def src2(cascade: Cascade) -> Observed:
    """D is made from a file, the file is replaced, E is made from it; R must see rows of one of them in both."""
    _land(cascade, "1", 5)
    _load(cascade, "d", 1)
    _file(cascade, "1", 5).write_text('{"value": 500}\n')
    _load(cascade, "e", 1)
    d, e = cascade.see("d", "e")
    return observed(d == e, d=d, e=e)


def src3(cascade: Cascade) -> Observed:
    """Each epoch reads the ids above the highest that D has; id 2 appears after 101; R must see every id."""
    for epoch, ids in ((1, [51]), (2, [101]), (3, [2, 151])):
        for number in ids:
            _land(cascade, "orders", number)
        (before,) = cascade.see("d")
        highest = max((number for found in before.values() for number in found), default=0)
        found = _landed(cascade, "orders").where(f"value > {highest}")
        cascade.tables.replace("d", found.selectExpr(f"{epoch} AS epoch", "value", "'' AS by"))
    (d,) = cascade.see("d")
    return observed({number for found in d.values() for number in found} == {2, 51, 101, 151}, d=d)


def src4(cascade: Cascade) -> Observed:
    """The job runs at its time, when one of two files has landed; R must see both, or nothing of that epoch."""
    _land(cascade, "1", 1)
    _load(cascade, "d", 1)
    (d,) = cascade.see("d")
    _land(cascade, "1", 2)
    return observed(d in ({}, {1: [1, 2]}), d=d)


def _file(cascade: Cascade, folder: str, value: int) -> Path:
    return cascade.tables.place / "landing" / folder / f"{value}.json"


def _land(cascade: Cascade, folder: str, value: int) -> None:
    """Let a file with one row arrive."""
    path = _file(cascade, folder, value)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{{"value": {value}}}\n')


def _landed(cascade: Cascade, folder: str) -> DataFrame:
    place = cascade.tables.place / "landing" / folder
    return cascade.tables.spark.read.schema("value BIGINT").json(str(place))


def _load(cascade: Cascade, table: str, epoch: int) -> None:
    """Replace an epoch of a table by what its folder has."""
    found = _landed(cascade, str(epoch))
    cascade.tables.replace(table, found.selectExpr(f"{epoch} AS epoch", "value", "'' AS by"))
