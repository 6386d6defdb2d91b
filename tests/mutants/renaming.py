"""Wrong rules about roots of other names, and about late files that skips leave behind."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

PLACES = "tests/contract/test_coordination_places.py"
RENAMED = "tests/contract/test_coordination_renamed_roots.py"

PLANTED_IN_NAMES = (
    Mutant(
        name="doctor passes over files at locations of parts of epochs",
        rule="I11",
        file="coordination/unread.py",
        old="        if between:\n",
        new="        if not root:\n",
        tests=(PLACES,),
        by="test_what_comes_to_a_part_of_an_epoch_later_is_named",
    ),
    Mutant(
        name="another name for a folder reads late files again",
        rule="I11",
        file="coordination/renamed_roots.py",
        old="                if twice:\n",
        new="                if twice and not files:\n",
        tests=(RENAMED,),
        by="test_a_late_file_is_not_read_again_by_another_name",
    ),
    Mutant(
        name="another name for a folder reads what an open epoch reads",
        rule="I11",
        file="coordination/renamed_roots.py",
        old="{committed_root(record, root.name), open_root(record.attempt, root.name)} - {0}",
        new="{committed_root(record, root.name)} - {0}",
        tests=(RENAMED,),
        by="test_files_of_an_attempt_that_came_to_nothing_are_free",
    ),
    Mutant(
        name="a new name reads late what an older declaration has read",
        rule="I11",
        file="coordination/renamed_roots.py",
        old="            or (reads_late and old.kind is RootKind.FILES)\n",
        new="",
        tests=(RENAMED,),
        by="test_a_new_name_reads_no_file_late_that_its_epoch_has_read",
    ),
    Mutant(
        name="files that a job misses by another name count as read",
        rule="I11",
        file="coordination/missed_by_names.py",
        old="            if missed:\n",
        new="            if not missed:\n",
        tests=(RENAMED,),
        by="test_files_that_a_job_misses_since_it_reads_another_root_there_are_named",
    ),
    Mutant(
        name="two begins by two names for a folder pass each other",
        rule="I11",
        file="coordination/renamed_roots.py",
        old="    required = [unchanged(before, chain) for chain in chains]\n",
        new="    required = [unchanged(before, chain) for chain in chains[:0]]\n",
        tests=(RENAMED,),
        by="test_an_epoch_that_begins_by_the_older_name_meanwhile_is_seen",
    ),
    Mutant(
        name="the first epoch of a new name for a table reads all rows again",
        rule="I11",
        file="coordination/renamed_roots.py",
        old="    return same and root.is_increment and old.is_increment\n",
        new="    return not same and root.is_increment and old.is_increment\n",
        tests=(RENAMED,),
        by="test_a_table_is_not_read_from_its_beginning_by_another_name",
    ),
    Mutant(
        name="doctor does not look at roots that were left",
        rule="I11",
        file="coordination/unread.py",
        old="    for root in (left | declared).values():\n",
        new="    for root in declared.values():\n",
        tests=(RENAMED,),
        by="test_late_files_of_a_root_that_was_left_are_named",
    ),
    Mutant(
        name="doctor counts on a begin that was skipped",
        rule="I11",
        file="coordination/unread.py",
        old="                last = max(newest, _newest_committed(self.reader, self.domain, job) or newest)\n",
        new="                last = newest\n",
        tests=(RENAMED,),
        by="test_a_skip_names_late_files_that_no_begin_looks_for_any_more",
    ),
    Mutant(
        name="a skip does not name late files that it puts beyond the window",
        rule="R5",
        file="coordination/unread.py",
        old="late if not look.comes(interval, following)]",
        new="late if look.comes(interval, following)]",
        tests=(RENAMED,),
        by="test_a_skip_names_late_files_that_no_begin_looks_for_any_more",
    ),
    Mutant(
        name="late files that a job has skipped count as read",
        rule="I11",
        file="coordination/missed_by_skips.py",
        old="            if missed:\n",
        new="            if not missed:\n",
        tests=(RENAMED,),
        by="test_late_files_that_a_job_misses_by_its_skip_are_named",
    ),
)
