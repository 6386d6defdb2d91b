"""Wrong rules about labels of outdated rows, and about rows whose inputs a changed declaration hides."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CALENDARS = "tests/contract/test_coordination_calendars.py"
DECISIONS = "tests/unit/test_decisions.py"
LABELS = "tests/contract/test_coordination_labels.py"
STAYING = "tests/contract/test_coordination_staying.py"

PLANTED_IN_LABELS = (
    Mutant(
        name="a table that its job has left is taken for an incremental one",
        rule="R18",
        file="coordination/reading/outdated.py",
        old="        left = {table for job in jobs for table in job.all_outputs if table not in declared}\n",
        new="        left = {table for job in jobs for table in job.past_outputs if table in declared}\n",
        tests=(LABELS,),
        by="test_copies_of_a_full_table_keep_the_label_when_its_job_has_left_it",
    ),
    Mutant(
        name="edges of one table share what is known of their outdated epochs",
        rule="R18",
        file="coordination/reading/outdated.py",
        old="        place = (domain, job.name, edge)",
        new="        place = (domain, job.name, job.all_edges[0])",
        tests=(LABELS,),
        by="test_epochs_keep_the_label_of_an_edge_that_was_declared_otherwise",
    ),
    Mutant(
        name="a process that has found no outdated epoch finds none that is committed later",
        rule="R18",
        file="coordination/reading/outdated.py",
        old="self._committed_since(domain, job.name, known.head.csn) if known and grows else None",
        new="list[EpochRecord]() if known and grows else None",
        tests=(LABELS,),
        by="test_an_epoch_that_commits_what_it_read_before_gets_its_label_at_once",
    ),
    Mutant(
        name="a rewrite that was merged with a later one is not known",
        rule="R18",
        file="domain/outdated.py",
        old="if rewrite.oldest <= csn",
        new="if rewrite.csn <= csn",
        tests=(DECISIONS,),
        by="test_a_cut_knows_a_rewrite_that_a_later_one_was_merged_with",
    ),
    Mutant(
        name="what rows of a left table have read counts as read by the others",
        rule="I11",
        file="domain/filling.py",
        old="for name, _ in before.source_revisions if name not in own),",
        new="for name, _ in before.source_revisions if name in own),",
        tests=(STAYING,),
        by="test_a_late_file_that_only_rows_of_a_left_table_have_read_is_named",
    ),
    Mutant(
        name="a job reads a table that no job declares any more at barriers that it does not have",
        rule="R6",
        file="coordination/commits/register.py",
        old="check_left_tables(record, self._left_tables(record, others))",
        new="pass",
        tests=("tests/contract/test_coordination_calendars.py",),
        by="test_readers_meet_the_calendar_of_a_table_that_its_job_has_left",
    ),
    Mutant(
        name="a calendar changes under readers that align with it",
        rule="R7",
        file="coordination/commits/dependents.py",
        old="if epoch.interval.end > beyond and _reads(epoch)]",
        new="if epoch.interval.end < beyond and _reads(epoch)]",
        tests=(CALENDARS,),
        by="test_a_calendar_does_not_change_under_readers_that_align_with_it",
    ),
)
