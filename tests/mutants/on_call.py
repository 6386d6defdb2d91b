"""Wrong rules in what people on call are told, and in the end of an attempt by hand."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

DIFFERENCES = "tests/contract/test_coordination_differences.py"
IMPACT = "tests/contract/test_coordination_impact.py"
LAG = "tests/contract/test_coordination_lag.py"
LINEAGE = "tests/contract/test_coordination_lineage.py"
ON_CALL = "tests/contract/test_coordination_on_call.py"

PLANTED_ON_CALL = (
    Mutant(
        name="an attempt that has published counts as ended by hand",
        rule="R10",
        file="coordination/upkeep/end_attempt.py",
        old="    if newest is None or newest.token != attempt.token or newest.aborted != why:\n",
        new="    if newest is not None and newest.token != attempt.token:\n",
        tests=(ON_CALL,),
        by="test_only_the_attempt_that_was_shown_is_ended",
    ),
    Mutant(
        name="a staged member is ended without its restatement",
        rule="R28",
        file="coordination/upkeep/end_attempt.py",
        old="    if newest.staged:\n",
        new="    if newest.staged and newest.restatement is None:\n",
        tests=(ON_CALL,),
        by="test_the_staged_epoch_of_a_restatement_is_not_ended",
    ),
    Mutant(
        name="lineage leads to the newest revision, not to the one that was read",
        rule="R3",
        file="coordination/reading/lineage.py",
        old="            newest = max((each for each in revisions if each.csn <= csn), key=_csn, default=None)\n",
        new="            newest = max(revisions, key=_csn, default=None)\n",
        tests=(LINEAGE,),
        by="test_what_came_later_is_no_lineage",
    ),
    Mutant(
        name="lineage takes the inputs of a later revision for those of the one that was read",
        rule="R3",
        file="coordination/reading/lineage.py",
        old="        return committed if is_newest else None\n",
        new="        return committed\n",
        tests=(LINEAGE,),
        by="test_what_came_later_is_no_lineage",
    ),
    Mutant(
        name="a table is held back by its own epoch, also where an input is late",
        rule="R21",
        file="domain/lag.py",
        old="            return min(missing, key=self._slowest).table\n",
        new="            return self._of_epoch(table, HolderState.NOT_BEGUN)\n",
        tests=(LAG,),
        by="test_each_table_is_held_back_by_the_first_epoch_upstream_that_lacks",
    ),
    Mutant(
        name="epochs beyond a gap count as lacking",
        rule="R21",
        file="domain/lag.py",
        old="                due = due[:low] + due[high:] if low < high else due\n",
        new="                due = due if low < high else due\n",
        tests=(LAG,),
        by="test_epochs_beyond_a_gap_are_not_lacking",
    ),
    Mutant(
        name="a table of an earlier commit begins where the first of its epochs does, beyond a gap, too",
        rule="R3",
        file="coordination/reading/past_states.py",
        old="        if is_known and chain.start < watermark <= chain.end:\n",
        new="        if is_known and chain.start < watermark:\n",
        tests=(DIFFERENCES,),
        by="test_a_state_of_any_commit_has_the_rows_that_a_cut_had_then",
    ),
    Mutant(
        name="a table of an earlier commit begins behind an epoch that was taken back since",
        rule="R22",
        file="coordination/reading/past_states.py",
        old="        if is_known and chain.start",
        new="        if chain.start",
        tests=(DIFFERENCES,),
        by="test_a_state_with_an_epoch_that_was_taken_back_later_is_whole_or_refused",
    ),
    Mutant(
        name="rows that a unit file has brought to earlier epochs are no difference",
        rule="R41",
        file="coordination/reading/differences.py",
        old="        grown = sized.clip is None and set",
        new="        grown = set",
        tests=("tests/contract/test_coordination_compacting.py",),
        by="test_rows_that_came_to_an_empty_epoch_of_a_unit_are_told",
    ),
    Mutant(
        name="a revert copies rows of files that another epoch has got since",
        rule="R30",
        file="coordination/restating/opening_revert.py",
        old="    reverting.refuse_files_elsewhere(reverting.held())\n",
        new="    reverting.held()\n",
        tests=("tests/contract/test_coordination_added_files.py",),
        by="test_a_revert_brings_no_file_back_that_another_epoch_has_got",
    ),
    Mutant(
        name="an open revert takes rows away that were adopted since",
        rule="R30",
        file="coordination/restating/restatements.py",
        old="            refuse_overtaken_copies(self.context, now)\n",
        new="",
        tests=("tests/contract/test_coordination_foreign.py",),
        by="test_an_open_revert_takes_no_rows_away_that_were_adopted_since",
    ),
    Mutant(
        name="what a vacuum took before a move is missed after it",
        rule="R24",
        file="coordination/upkeep/audit.py",
        old="        if csn > horizon and at + defaults",
        new="        if at + defaults",
        tests=("tests/contract/test_coordination_moving.py",),
        by="test_what_was_deleted_before_the_move_is_not_missed_after_it",
    ),
    Mutant(
        name="what a vacuum takes during a move stays in the target, and no move ends",
        rule="R33",
        file="coordination/upkeep/move.py",
        old="            self._retry(self._remove_deleted)\n",
        new="",
        tests=("tests/contract/test_coordination_moving.py",),
        by="test_a_vacuum_under_way_does_not_end_the_move_for_good",
    ),
    Mutant(
        name="a move waits a week for a revert, and says that tasks and readers are to end",
        rule="R30",
        file="coordination/upkeep/move.py",
        old='f"{rest}{self._of_reverts(live)}"',
        new="rest",
        tests=("tests/contract/test_coordination_moving.py",),
        by="test_a_move_that_waits_for_the_end_of_a_revert_says_how_to_give_it_up",
    ),
    Mutant(
        name="members are told as epochs that stay, too",
        rule="R28",
        file="coordination/restating/impact.py",
        old="        if committed is None or (job.name, interval) in others:\n",
        new="        if committed is None:\n",
        tests=(IMPACT,),
        by="test_impact_tells_followers_held_and_labelled_epochs",
    ),
)
