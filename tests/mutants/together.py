"""Wrong rules about several epochs in one commit."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

PUBLISHING = "coordination/attempts/publish.py"
TOGETHER = "tests/contract/test_coordination_together.py"

PLANTED_IN_SETS = (
    Mutant(
        name="a commit of several epochs requires the fence of the first alone",
        rule="R2",
        file=PUBLISHING,
        old="        for member in members:\n            commit.hold(",
        new="        for member in members[:1]:\n            commit.hold(",
        tests=(TOGETHER,),
        by="test_a_member_that_is_overtaken_meanwhile_keeps_all_back",
    ),
    Mutant(
        name="a commit of several epochs asks for later revisions of the first one's sources alone",
        rule="R27",
        file=PUBLISHING,
        old="for member in members for needed in member.required(reading)",
        new="for member in members[:1] for needed in member.required(reading)",
        tests=(TOGETHER,),
        by="test_a_later_revision_of_any_source_keeps_all_back",
    ),
    Mutant(
        name="a commit of several epochs removes the former slice of the first alone",
        rule="R3",
        file=PUBLISHING,
        old="for span in self.intervals if self.hot.record.progress.covers(span)",
        new="for span in self.intervals[:1] if self.hot.record.progress.covers(span)",
        tests=(TOGETHER,),
        by="test_leased_cut_is_unchanged_and_vacuum_takes_only_the_replaced",
    ),
    Mutant(
        name="a commit of several epochs counts as done where one of them is committed",
        rule="R15",
        file=PUBLISHING,
        old="if len(done) == len(attempts):",
        new="if done:",
        tests=(TOGETHER,),
        by="test_a_member_that_is_committed_alone_keeps_the_others_back",
    ),
    Mutant(
        name="a commit of several epochs tells readers of the first rewrite alone",
        rule="R13",
        file=PUBLISHING,
        old="changes = [piece.changes for piece in sink.slices if",
        new="changes = [piece.changes for piece in sink.slices[:1] if",
        tests=(TOGETHER,),
        by="test_readers_of_a_revision_of_several_epochs_begin_again",
    ),
    Mutant(
        name="a commit of several epochs tells readers of what lies between its rewrites, too",
        rule="R13",
        file="domain/rewrites.py",
        old="    spans = merged(intervals)\n",
        new="    spans = merged(intervals)\n    spans = (Interval(spans[0].start, spans[-1].end),)\n",
        tests=(TOGETHER,),
        by="test_readers_of_a_revision_of_several_epochs_begin_again",
    ),
    Mutant(
        name="rewrites of one commit have the CSN of the commit before",
        rule="R13",
        file=PUBLISHING,
        old="with_rewrites(sink.log, changes, commit.csn,",
        new="with_rewrites(sink.log, changes, commit.csn - 1,",
        tests=(TOGETHER,),
        by="test_readers_of_a_revision_of_several_epochs_begin_again",
    ),
    Mutant(
        name="the staged files of one of several epochs count for all",
        rule="I6",
        file=PUBLISHING,
        old="attempt, known = member.attempt, (member.interval, table.name)",
        new="attempt, known = member.attempt, (self.attempts[0].interval, table.name)",
        tests=(TOGETHER,),
        by="test_lost_output_of_any_member_keeps_all_back",
    ),
    Mutant(
        name="of several epochs that are behind only the last is computed again",
        rule="R18",
        file="coordination/commits/catch_up.py",
        old="behind = caught_up(after.behind,",
        new="behind = caught_up(topology.record.behind,",
        tests=(TOGETHER,),
        by="test_epochs_behind_their_source_are_computed_again_together",
    ),
    Mutant(
        name="a run finds the revision of the first epoch of its commit for all of them",
        rule="R15",
        file="coordination/attempts/resume.py",
        old="        if (member.job, member.interval) == (name.job, name.interval)\n",
        new="",
        tests=(TOGETHER,),
        by="test_a_run_finds_its_own_commit_below_a_later_one",
    ),
    Mutant(
        name="a job commits epochs together that read each other",
        rule="R27",
        file="domain/together.py",
        old="    if own:\n",
        new="    if len(own) > MOST_TOGETHER:\n",
        tests=("tests/unit/test_decisions.py",),
        by="test_epochs_that_read_each_other_are_not_committed_together",
    ),
)
