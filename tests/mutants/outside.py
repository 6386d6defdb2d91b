"""Wrong rules about what other programs write: the names of their files, and their commits."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

ADOPTION = "coordination/commits/adopt.py"
FILES = "tests/contract/test_source_files.py"
FOREIGN = "tests/contract/test_coordination_foreign.py"

PLANTED_BY_OTHERS = (
    Mutant(
        name="a file that Spark passes over is one of an epoch",
        rule="I11",
        file="sources/files.py",
        old="    if is_hidden(info.base_name):\n",
        new="    if not info.base_name:\n",
        tests=(FILES,),
        by="test_a_name_that_spark_passes_over_is_left_out_by_patterns_and_refused",
    ),
    Mutant(
        name="a pattern of names that are left out is taken",
        rule="I11",
        file="sources/locations.py",
        old="    if none := next(filter(is_hidden, parts[varying:]), None):\n",
        new="    if none := next(filter(is_hidden, parts[:0]), None):\n",
        tests=(FILES,),
        by="test_a_location_that_cannot_be_read_is_refused",
    ),
    Mutant(
        name="a revert takes away rows that come while it is published",
        rule="R30",
        file="coordination/attempts/published_together.py",
        old="any((table.csn or 0) > self.looked for table in tables)",
        new="any((table.csn or 0) < 0 for table in tables)",
        tests=(FOREIGN,),
        by="test_a_revert_looks_again_for_rows_that_come_while_it_is_published",
    ),
    Mutant(
        name="a restatement waits for readers of rows that it replaces",
        rule="R28",
        file="coordination/attempts/publish.py",
        old="adopts=self._replaced(sink),",
        new="adopts=None,",
        tests=(FOREIGN,),
        by="test_a_restatement_replaces_what_its_members_keep_from_being_adopted",
    ),
    Mutant(
        name="a restatement takes rows of another program beside its members away",
        rule="R17",
        file=ADOPTION,
        old="    return found.version if {span.end for span in replaced}.issuperset(found.foreign.epochs) else None\n",
        new="    return found.version\n",
        tests=(FOREIGN,),
        by="test_a_restatement_says_what_it_does_not_replace",
    ),
    Mutant(
        name="an adoption ends when the other program writes again",
        rule="R17",
        file=ADOPTION,
        old="            raise ReadAgain from error",
        new="            raise",
        tests=(FOREIGN,),
        by="test_rows_that_come_during_an_adoption_are_adopted_with_the_others",
    ),
    Mutant(
        name="a compaction of another program stops the statements of a job",
        rule="R17",
        file="tables/iceberg/publishing.py",
        old="[*every, *_left(publication.base, metadata, lists)]",
        new="every",
        tests=("tests/contract/test_coordination_engines.py",),
        by="test_compaction_does_not_stop_statements_that_begin_with_its_rows",
    ),
)
