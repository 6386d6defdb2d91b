"""Wrong rules about commit groups."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

GROUPS = "tests/contract/test_coordination_groups.py"
CIRCLES = "tests/contract/test_coordination_groups_circles.py"
READY = "tests/contract/test_coordination_groups_ready.py"
OUTCOME = "tests/contract/test_coordination_groups_outcome.py"
STALLS = "tests/contract/test_coordination_groups_stalls.py"
SETTLING = "tests/contract/test_coordination_groups_settling.py"
LISTS = "tests/contract/test_coordination_groups_lists.py"
CRASHES = "tests/contract/test_coordination_groups_crashes.py"

PLANTED_IN_GROUPS = (
    Mutant(
        name="a group is published without the jobs that have never run",
        rule="R40",
        file="coordination/upkeep/members_now.py",
        old="                missing.append((member.name, member.interval))\n            else:",
        new="                continue\n            else:",
        tests=(GROUPS,),
        by="test_an_incomplete_group_is_not_published",
    ),
    Mutant(
        name="a skip between two reads makes a member take staged rows for committed ones",
        rule="R40",
        file="coordination/commits/staged.py",
        old="        if stamped is None or shown is None or read.staged:\n            continue",
        new="        if stamped is not None or shown is None or read.staged:\n            continue",
        tests=(GROUPS,),
        by="test_a_skip_between_the_reads_of_a_begin_is_noticed",
    ),
    Mutant(
        name="a barrier that begins anew takes up what was staged for the one that was abandoned",
        rule="R40",
        file="coordination/commits/groups.py",
        old="        if topology is not None and name in topology.record.restating:",
        new="        if topology is None and name in topology.record.restating:",
        tests=(GROUPS,),
        by="test_an_interrupted_abandon_is_finished_first",
    ),
    Mutant(
        name="a job that is retired is waited for",
        rule="R40",
        file="domain/group.py",
        old="    return bool(job.retired) or (job.origin",
        new="    return (job.origin",
        tests=(GROUPS,),
        by="test_a_retired_job_is_not_waited_for",
    ),
    Mutant(
        name="what an interrupted publish has left is published by nobody",
        rule="R40",
        file="coordination/service.py",
        old="        csn = self.restatements.publish_if_whole(answer) if isinstance(answer, AlreadyStaged) else None",
        new="        csn = None",
        tests=(GROUPS,),
        by="test_whoever_comes_publishes_what_is_staged",
    ),
    Mutant(
        name="groups and jobs outside of them may wait for each other",
        rule="R40",
        file="domain/group.py",
        old="                if commits[reader.name] != commits[writer]:",
        new="                if commits[reader.name] == commits[writer]:",
        tests=(CIRCLES,),
        by="test_a_circle_of_commits_is_refused",
    ),
    Mutant(
        name="a job that reads a group may leave it while its list names the job",
        rule="R40",
        file="domain/group.py",
        old="            if job.name in group.jobs and commit != own:",
        new="            if job.name not in group.jobs and commit != own:",
        tests=(CIRCLES,),
        by="test_a_circle_of_commits_is_refused",
    ),
    Mutant(
        name="readiness waits for the group that a job has left",
        rule="R40",
        file="coordination/reading/change_set.py",
        old="        has_left = record.is_group and (self.name is None or self.is_group)",
        new="        has_left = False",
        tests=(READY,),
        by="test_a_job_that_has_left_waits_for_no_group",
    ),
    Mutant(
        name="readiness takes staged rows for the inputs of a committed epoch",
        rule="R40",
        file="coordination/reading/wait.py",
        old="    members = None if is_committed and change_set.is_group else change_set.members",
        new="    members = change_set.members",
        tests=(READY,),
        by="test_an_epoch_that_is_committed_by_itself_waits_for_commits",
    ),
    Mutant(
        name="staged output is awaited of a job that begins later",
        rule="R40",
        file="domain/group.py",
        old="    return publishes(job.group, name, interval) and not is_without(job, interval)",
        new="    return publishes(job.group, name, interval)",
        tests=(READY,),
        by="test_an_epoch_that_the_group_does_not_get_is_read_as_committed",
    ),
    Mutant(
        name="staged output is awaited of a table that its job has left",
        rule="R40",
        file="coordination/commits/staged.py",
        old="            if job is not None and any(output.name == name for output in job.record.outputs):",
        new="            if job is not None:",
        tests=(READY,),
        by="test_a_table_that_its_job_has_left_is_not_staged",
    ),
    Mutant(
        name="an epoch that its group publishes while its task looks is announced by nobody",
        rule="R35",
        file="operators/outcome.py",
        old="""    staged = staged_epochs(reader, job, epochs)
    published = published_epochs(reader, job, epochs, owner, by_group=True)
    done =""",
        new="""    published = published_epochs(reader, job, epochs, owner, by_group=True)
    staged = staged_epochs(reader, job, epochs)
    done =""",
        tests=(OUTCOME,),
        by="test_an_epoch_that_is_published_between_two_reads_is_not_lost",
    ),
    Mutant(
        name="the last job of a group says nothing of others that are outdated",
        rule="R40",
        file="coordination/restating/grouped.py",
        old="        if left:\n            raise _stalled(now, left) from error",
        new="        if not left:\n            raise _stalled(now, left) from error",
        tests=(STALLS,),
        by="test_the_last_job_says_which_others_are_outdated",
    ),
    Mutant(
        name="a job fails since those that read it are outdated, whose tasks come after it",
        rule="R40",
        file="coordination/restating/grouped.py",
        old="        left = [member for member in outdated if member.job not in coming]",
        new="        left = outdated",
        tests=(STALLS,),
        by="test_a_cleared_job_does_not_fail_before_its_readers_are_cleared",
    ),
    Mutant(
        name="nobody publishes a group that has waited for a skip",
        rule="R40",
        file="coordination/service.py",
        old="        stalled = self.restatements.settle_epochs(*skipped.published, *left)",
        new="        stalled = self.restatements.settle_epochs()",
        tests=(SETTLING,),
        by="test_the_others_are_published_by_what_came_last",
    ),
    Mutant(
        name="a skip that was interrupted before its group was published publishes nothing when it is repeated",
        rule="R40",
        file="coordination/service.py",
        old="        left = (EpochId(domain_name(domain), job_name(job), epoch) for epoch in skipped.left)",
        new="        left = (EpochId(domain_name(domain), job_name(job), epoch) for epoch in ())",
        tests=(SETTLING,),
        by="test_an_interrupted_operation_publishes_when_it_is_repeated",
    ),
    Mutant(
        name="nobody publishes a group when a job that has left it publishes",
        rule="R40",
        file="coordination/service.py",
        old="            self.restatements.settle_epochs(published)",
        new="            self.restatements.settle_epochs()",
        tests=(SETTLING,),
        by="test_a_job_that_leaves_or_begins_later_publishes_the_others",
    ),
    Mutant(
        name="a job may be retired while its epoch is staged for its group",
        rule="R40",
        file="coordination/upkeep/retire.py",
        old="        return [unchanged(reading, key) for key in keys]",
        new="        return []",
        tests=(SETTLING,),
        by="test_a_job_is_not_retired_while_it_is_staged",
    ),
    Mutant(
        name="a skip takes over what is staged for a group",
        rule="R40",
        file="coordination/attempts/within.py",
        old="            if not record.is_group or (is_member and (attempt.staged or not skips)):",
        new="            if not record.is_group or (is_member and not skips):",
        tests=(GROUPS,),
        by="test_a_skipped_epoch_is_not_waited_for",
    ),
    Mutant(
        name="a barrier of a group with nothing to publish stays open",
        rule="R40",
        file="coordination/restating/grouped.py",
        old="            store_replaced(context.store, domain, current.stamped, ended, before=topology)\n",
        new="",
        tests=(SETTLING,),
        by="test_a_barrier_with_nothing_to_publish_is_closed",
    ),
    Mutant(
        name="an origin moves over an epoch that is staged",
        rule="R7",
        file="coordination/commits/register.py",
        old="            if stamped.record.attempt is not None and (key in locks or stamped.record.attempt.staged)",
        new="            if stamped.record.attempt is not None and key in locks",
        tests=(LISTS,),
        by="test_a_staged_epoch_is_one_that_is_begun",
    ),
    Mutant(
        name="an open barrier of a group keeps restatements of committed epochs from opening",
        rule="R28",
        file="coordination/restating/plan.py",
        old="            if name == self.opened or stamped.record.is_group:\n",
        new="            if name == self.opened:\n",
        tests=(SETTLING,),
        by="test_an_open_barrier_does_not_hold_back_restatements",
    ),
)
