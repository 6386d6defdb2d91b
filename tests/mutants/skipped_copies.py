"""Wrong rules about the copies of skipped epochs, which a restatement takes along (R28)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

COPIES = "coordination/restating/skipped_copies.py"
OPERATIONS = "coordination/restating/restatements.py"
REVERTING = "coordination/restating/reverting.py"
EDGES = "tests/contract/test_coordination_restating_edges.py"
COLUMNS = "tests/contract/test_coordination_columns.py"
REVERTS = "tests/contract/test_coordination_reverting.py"

PLANTED_IN_COPIES = (
    Mutant(
        name="the code of a job computes what was skipped and copies what changes",
        rule="R28",
        file=COPIES,
        old="    copied = _copied(context, restatement, job.domain, job.name, interval)\n",
        new="    copied = None\n",
        tests=(EDGES,),
        by="test_a_skipped_copy_that_an_interruption_has_left_is_not_computed",
    ),
    Mutant(
        name="only the first of several skipped copies follows",
        rule="R28",
        file=COPIES,
        old="interval) is None:\n                return\n",
        new="interval) is not None:\n                return\n",
        tests=(EDGES,),
        by="test_a_day_that_is_computed_again_has_its_copies_anew",
    ),
    Mutant(
        name="a publish leaves out the copy that has joined meanwhile",
        rule="R28",
        file=OPERATIONS,
        old="            copy_members(self.context, now)\n",
        new="",
        tests=(EDGES,),
        by="test_a_skip_in_the_middle_that_copies_what_is_replaced",
    ),
    Mutant(
        name="a revert gives rows back that a member had computed from older rows of another",
        rule="R30",
        file=REVERTING,
        old="            if found.staged and known.on_upstream_revision is OnUpstreamRevision.CASCADE:\n",
        new="            if found.staged:\n",
        tests=(EDGES,),
        by="test_a_member_had_ignored_a_revision_of_another_member",
    ),
    Mutant(
        name="a revert computes what was a skipped copy",
        rule="R30",
        file=REVERTING,
        old="        if former.skipped:\n",
        new="        if former.skipped and not interval:\n",
        tests=(EDGES,),
        by="test_skipped_copies_of_what_changes_follow_it",
    ),
    Mutant(
        name="rows are copied without columns that the newest declaration lacks",
        rule="R32",
        file="coordination/commits/alter.py",
        old="unknown = None if every else first_unknown(",
        new="unknown = first_unknown(",
        tests=(COLUMNS,),
        by="test_a_skip_copies_columns_that_the_newest_declaration_lacks",
    ),
    Mutant(
        name="a later reader of a revert that is skipped waits for its code",
        rule="R30",
        file=OPERATIONS,
        old="            copy_members(self.context, copied)\n",
        new="            copied.staged()\n",
        tests=(REVERTS,),
        by="test_a_later_reader_that_is_a_skipped_copy_is_copied_within_the_revert",
    ),
    Mutant(
        name="a revert that is refused once open says only what it holds up",
        rule="R30",
        file=REVERTING,
        old="        if self.is_open:\n",
        new="        if not self.stamped:\n",
        tests=(REVERTS,),
        by="test_a_revert_that_is_refused_once_open_says_how_to_end_it",
    ),
)
