"""Wrong rules of table formats: what files prove, what is written to them, and how they are read."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

STATISTICS = "tests/contract/test_iceberg_statistics.py"

PLANTED_IN_TABLES = (
    Mutant(
        name="a column without counts is taken for one without values",
        rule="R14",
        file="tables/iceberg/bounds.py",
        old="not in (file.value_counts or {}):\n        return None",
        new="not in (file.value_counts or {}):\n        return int(file.record_count)",
        tests=(STATISTICS,),
        by="test_files_without_counts_prove_nothing",
    ),
    Mutant(
        name="a file without statistics is taken for one without an epoch column",
        rule="R19",
        file="tables/iceberg/drafts.py",
        old="return all((file.column_sizes or {}).get(epoch) == 0",
        new="return all(not (file.column_sizes or {}).get(epoch)",
        tests=(STATISTICS,),
        by="test_files_that_do_not_say_that_they_lack_the_epoch_are_not_shared",
    ),
)
