"""Wrong rules of table formats: what files prove, what is written to them, and how they are read."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

STATISTICS = "tests/contract/test_iceberg_statistics.py"
TASK_WRITER = "tests/unit/test_iceberg_task_writer.py"
FORMATS = "tests/contract/test_table_contract.py"
ESTIMATES = "tests/unit/test_spark_estimates.py"

PLANTED_IN_TABLES = (
    Mutant(
        name="two Unicode forms of one name are two columns",
        rule="R32",
        file="tables/columns.py",
        old='seen.setdefault(unicodedata.normalize("NFC", path).casefold(), path)',
        new="seen.setdefault(path.casefold(), path)",
        tests=(FORMATS,),
        by="test_columns_that_no_table_can_have",
    ),
    Mutant(
        name="a column is renamed to one that Iceberg's readers add",
        rule="R32",
        file="tables/evolving.py",
        old="    refuse_reserved(table, (name for name in fields if name not in existing.names))\n",
        new="",
        tests=(FORMATS,),
        by="test_what_cannot_be_is_refused_by_name",
    ),
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
    Mutant(
        name="bytes that are no text become the bound of a text column",
        rule="R14",
        file="tables/iceberg/task_writer.py",
        old="    except UnicodeDecodeError:\n        return None",
        new="    except UnicodeDecodeError:\n        return value",
        tests=(TASK_WRITER,),
        by="test_text_that_is_no_utf8_is_kept_and_bounds_nothing",
    ),
    Mutant(
        name="Spark takes a table of many rows in few bytes for a small one",
        rule="R22",
        file="spark/estimates.py",
        old="min(max(rows, size // _WIDEST), _MOST_IDS)",
        new="min(size // _WIDEST, _MOST_IDS)",
        tests=(ESTIMATES,),
        by="test_ids_are_as_many_as_rows_and_as_wide",
    ),
    Mutant(
        name="a lost manifest of rows that leave stops every publish",
        rule="I6",
        file="tables/iceberg/changes.py",
        old="            except FileNotFoundError:\n",
        new="            except NotADirectoryError:\n",
        tests=(FORMATS,),
        by="test_a_lost_manifest_of_what_leaves_stops_no_publish",
    ),
)
