"""Wrong rules about epochs that hold a restatement, or join it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CLOSURE = "coordination/restating/closure.py"
DEPENDENTS = "coordination/commits/dependents.py"
LATE_READERS = "coordination/restating/late_readers.py"
OPERATIONS = "coordination/restating/restatements.py"
OUTDATED = "domain/outdated.py"
RESTATEMENT = "domain/restatement.py"
OPENING_REVERT = "coordination/restating/opening_revert.py"

HOLDING = "tests/contract/test_coordination_holding.py"
AUDITING = "tests/contract/test_coordination_auditing.py"
REVERTING_TESTS = "tests/contract/test_coordination_reverting.py"
MEMBERS = "tests/contract/test_coordination_restating_members.py"

PLANTED_IN_HOLDING = (
    Mutant(
        name="epochs behind an edge that holds are members",
        rule="R28",
        file=CLOSURE,
        old="            yield _Candidate(job, stamped, reads, held)\n",
        new="            yield _Candidate(job, stamped, (*reads, *held), held)\n",
        tests=(HOLDING,),
        by="test_epochs_behind_a_hold_edge_are_no_members_and_keep_it_from_publishing",
    ),
    Mutant(
        name="a restatement is published over epochs that no user has released",
        rule="R28",
        file=DEPENDENTS,
        old="                and not (held and _is_released(reader, domain, beside, job.name, stamped))\n",
        new="                and not (held and beside.members)\n",
        tests=(HOLDING,),
        by="test_epochs_behind_a_hold_edge_are_no_members_and_keep_it_from_publishing",
    ),
    Mutant(
        name="a release lets go of edges that cascade",
        rule="R18",
        file=DEPENDENTS,
        old="not (held and _is_released(reader, domain, beside, job.name, stamped))",
        new="not _is_released(reader, domain, beside, job.name, stamped)",
        tests=(HOLDING,),
        by="test_release_lets_go_of_hold_edges_only",
    ),
    Mutant(
        name="a release is about epochs that are committed later, too",
        rule="R28",
        file=RESTATEMENT,
        old="            span.start <= interval.start and interval.end <= span.end for span in self.spans\n",
        new="            span.start <= interval.start for span in self.spans\n",
        tests=(HOLDING,),
        by="test_reader_that_commits_after_a_release_holds_it",
    ),
    Mutant(
        name="a release is about later commits of an epoch, too",
        rule="R28",
        file=RESTATEMENT,
        old="            and (committed is None or committed <= made.at)\n",
        new="",
        tests=(HOLDING,),
        by="test_a_released_epoch_that_has_read_the_new_rows_holds_an_open_revert",
    ),
    Mutant(
        name="a release is about every job",
        rule="R28",
        file=RESTATEMENT,
        old="        return self.job == job and any(\n",
        new="        return any(\n",
        tests=(HOLDING,),
        by="test_a_release_is_about_the_jobs_that_it_names",
    ),
    Mutant(
        name="epochs that joined count as released, not as members",
        rule="R28",
        file=OPERATIONS,
        old="            if decision is Decision.RELEASED:\n",
        new="            if decision in Decision:\n",
        tests=(HOLDING,),
        by="test_joined_epochs_are_computed_again_with_what_has_read_them",
    ),
    Mutant(
        name="epochs join that nothing can compute again",
        rule="R28",
        file=OPERATIONS,
        old="joining=joining)\n            refuse_obstacles(planned)\n",
        new="joining=joining)\n",
        tests=(HOLDING,),
        by="test_epochs_of_a_retired_job_cannot_join_but_be_released",
    ),
    Mutant(
        name="the domain does not remember that epochs were released",
        rule="R18",
        file="coordination/commits/catch_up.py",
        old="        after = after.without(ends, released)\n",
        new="        after = after.without(ends)\n",
        tests=(HOLDING,),
        by="test_released_epochs_stay_and_their_rows_carry_a_label",
    ),
    Mutant(
        name="rows of released epochs carry no label",
        rule="R18",
        file=OUTDATED,
        old="read.table == table and read.on_upstream_revision.may_stay",
        new="read.table == table and read.on_upstream_revision is OnUpstreamRevision.IGNORE",
        tests=(HOLDING,),
        by="test_released_epochs_stay_and_their_rows_carry_a_label",
    ),
    Mutant(
        name="the audit takes any change of what an edge holds for a release",
        rule="R18",
        file="domain/auditing.py",
        old="        if is_held and newest is not None and newest.csn in released:\n",
        new="        if is_held:\n",
        tests=(AUDITING,),
        by="test_committed_epoch_with_a_changed_input_is_named",
    ),
    Mutant(
        name="a fill reads the newest rows in place of those that a released epoch has read",
        rule="R7",
        file="domain/filling.py",
        old="        return rewritten_since(log, read.csn, read.low, read.high) is not None\n",
        new="        return False\n",
        tests=(HOLDING,),
        by="test_fill_of_a_released_epoch_whose_inputs_are_gone_is_refused",
    ),
    Mutant(
        name="a revert forgets who was released",
        rule="R30",
        file=OPENING_REVERT,
        old="                decisions(planned.released, Decision.RELEASED, by=by, reason=reason, at=reading.now)\n",
        new="                decisions((), Decision.RELEASED, by=by, reason=reason, at=reading.now)\n",
        tests=(HOLDING,),
        by="test_revert_keeps_released_epochs_where_they_stand",
    ),
    Mutant(
        name="a revert replaces what a released epoch has read since",
        rule="R30",
        file=OPENING_REVERT,
        old=" and not held.has_read_since(csn)",
        new="",
        tests=(HOLDING,),
        by="test_revert_is_refused_once_a_released_epoch_has_read_the_new_rows",
    ),
    Mutant(
        name="a revert leaves out what has read the rows that it takes back",
        rule="R30",
        file=OPENING_REVERT,
        old="            members=planned.members,\n",
        new="            members=now.record.members,\n",
        tests=(REVERTING_TESTS,),
        by="test_later_readers_are_computed_again_within_the_revert",
    ),
    Mutant(
        name="a cleared task computes anew what a revert has copied",
        rule="R30",
        file="coordination/attempts/begin.py",
        old="        copied = None if skips or self.copies else self._within.copied(reading, epoch)\n",
        new="        copied = None if reading else self._within.copied(reading, epoch)\n",
        tests=(REVERTING_TESTS,),
        by="test_no_task_computes_what_a_revert_copies",
    ),
    Mutant(
        name="a restatement is never taken back once its revert was abandoned",
        rule="R30",
        file=OPENING_REVERT,
        old="    if not is_over(known.record, incarnation=reading.head.incarnation, now=reading.now):\n",
        new="    if known.record.reverts:\n",
        tests=(REVERTING_TESTS,),
        by="test_an_abandoned_revert_is_opened_anew",
    ),
    Mutant(
        name="a publish fails for good because of readers that are gone",
        rule="R28",
        file=OPERATIONS,
        old="                raise ReadAgain from error",
        new="                raise",
        tests=(MEMBERS,),
        by="test_reader_that_is_gone_before_it_could_join_keeps_nothing_back",
    ),
    Mutant(
        name="of two publishers the one that met readers is told that the restatement is over",
        rule="R15",
        file=LATE_READERS,
        old="        if record.state is RestatementState.PUBLISHED:\n            return [], (), None\n",
        new="",
        tests=(MEMBERS,),
        by="test_reader_that_is_gone_before_it_could_join_keeps_nothing_back",
    ),
)
