"""Types × readers: ``python -m tests.readers`` writes docs/reference/readers.md.

tests/integration/test_spark_readers.py has each reader read each type. The cells of the page are what it found; it
compares them with the page, and writes the page when this module runs it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import pytest

from tests.architecture.sources import ROOT

PAGE = ROOT / "docs" / "reference" / "readers.md"
RECORDING = "RECORD_READERS"
"""Variable of the environment with which the test writes the page in place of comparing it."""

TYPES = {
    "boolean": "true",
    "tinyint": "cast(-1 as tinyint)",
    "smallint": "cast(2 as smallint)",
    "int": "3",
    "bigint": "9007199254740993",
    "float": "cast(1.1 as float)",
    "double": "0.1D",
    "NaN": "double('NaN')",
    "-0.0": "-0.0D",
    "infinity": "float('-infinity')",
    "decimal(10,2)": "cast('12345678.90' as decimal(10,2))",
    "decimal(38,18)": "cast('-1e-18' as decimal(38,18))",
    "date": "date'2013-02-08'",
    "date of the Julian calendar": "date'1582-10-04'",
    "timestamp": "timestamp'2013-02-08 10:00:00.123456Z'",
    "timestamp before 1900": "timestamp'1883-11-18 00:00:00Z'",
    "timestamp_ntz": "timestamp_ntz'2013-03-10 02:30:00.000001'",
    "string": "'ünï \\u0000 text'",
    "empty string": "''",
    "binary": "X'00ff'",
    "null": "cast(null as string)",
    "array": "array(1, null, 3)",
    "map": "map('k', named_struct('t', timestamp'2013-02-08 10:00:00Z'))",
    "struct": "named_struct('x', 1, 'y', array(named_struct('z', cast(null as int))))",
}
"""Name of the type or of a value, and the value in Spark's SQL."""

READERS = (
    "Spark, Iceberg's runtime",
    "Spark, its own Parquet reader",
    "Spark, Python workers",
    "Arrow",
    "DuckDB",
    "pyiceberg, cut file",
    "pyiceberg, REST catalog",
    "Spark, REST catalog",
)

TIME = "time"
"""Type that Spark's tables cannot have: Arrow writes it, or another program whose files are added."""

_HEAD = """# What each reader gets

Made by `python -m tests.readers`, which runs [a test](../../tests/integration/test_spark_readers.py): it writes a value
of each type with Spark, has each reader read it, and compares. It fails when this page does not say what it finds.
**equal** is the value that was written, **refused** an error that names the type.

A column of the type `time` comes from Arrow, or from files of other programs that are added. A DataFrame with one is
refused (`InvalidInput`): cast it to a string before `epoch.write`.

The first three are `epoch.read` and `cut.views()` with and without
[Iceberg's runtime](../how-to/write-jobs.md#give-spark-icebergs-runtime) and
[a file system for the warehouse](../decisions/reads-on-s3.md) (one session has both, and the package is told to read as
where it lacks them; the plans are looked at); Arrow and DuckDB are `cut[table].to_arrow()` and
`cut.sql`; the next is [a cut file](../how-to/read.md#open-a-cut-in-any-engine), the last two come by
[an address](../how-to/engines.md). Filters on NaN and -0.0 are another matter: what reads by Iceberg's runtime without
this package [overlooks them](../decisions/spark-reads.md).
"""


def page(cells: Mapping[tuple[str, str], str]) -> str:
    """Return the page. :param cells: what was found, by the value's name and the reader."""
    lines = [
        f"| value | {' | '.join(READERS)} |",
        f"| --- {'| --- ' * len(READERS)}|",
        *(f"| {name} | {' | '.join(cells[name, reader] for reader in READERS)} |" for name in (*TYPES, TIME)),
    ]
    return _HEAD + "\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    os.environ[RECORDING] = "1"
    sys.exit(pytest.main(["-n0", str(ROOT / "tests" / "integration" / "test_spark_readers.py")]))
