"""Wrong rules in dropping jobs and tables (R39)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

DROPPING = ("tests/contract/test_coordination_dropping.py",)
EDGES = ("tests/contract/test_coordination_dropping_edges.py",)

PLANTED_IN_DROPS = (
    Mutant(
        name="attempts of a job get the tokens of a dropped one of its name",
        rule="R39",
        file="domain/beginning.py",
        old="    return 1 if topology is None else topology.record.tokens + 1\n",
        new="    return 1\n",
        tests=DROPPING,
        by="test_a_zombie_of_the_dropped_job_reaches_nothing_of_the_new_one",
    ),
    Mutant(
        name="a process that stood still deletes by names that others have since",
        rule="R39",
        file="coordination/upkeep/drop.py",
        old="            if topology.record.dropping is None or topology.record.dropping.csn != found.csn:\n",
        new="            if ends and topology.record.dropping is None:\n",
        tests=DROPPING,
        by="test_a_drop_that_stood_still_while_another_process_ended_it",
    ),
    Mutant(
        name="a process that stood still removes the catalog entry of the next table of a name",
        rule="R39",
        file="tables/projection.py",
        old="or (recorded is None and found.version) or not may_go():",
        new="or (recorded is None and found.version):",
        tests=DROPPING,
        by="test_a_drop_that_stood_still_while_another_process_ended_it",
    ),
    Mutant(
        name="a job of a commit group is dropped, and its group waits for it",
        rule="R39",
        file="domain/dropping.py",
        old="        and not set(names).isdisjoint(job.group.jobs)\n",
        new="        and names is None\n",
        tests=EDGES,
        by="test_a_job_of_a_commit_group_is_not_dropped_alone",
    ),
    Mutant(
        name="a drop that has retired the jobs of a commit group takes one of them only",
        rule="R39",
        file="domain/dropping.py",
        old="        and (not job.retired or name in shown)\n",
        new="        and not job.retired\n",
        tests=EDGES,
        by="test_the_jobs_of_a_commit_group_are_dropped_together",
    ),
    Mutant(
        name="rows of a dropped table are compared by the columns of the next one",
        rule="R39",
        file="coordination/reading/differences.py",
        old="    _refuse_another(old, new)\n",
        new="",
        tests=DROPPING,
        by="test_cuts_sessions_and_leases_of_before_are_not_of_the_new_table",
    ),
    Mutant(
        name="a name is taken while records of a dropped job are there",
        rule="R39",
        file="coordination/commits/register.py",
        old="        refuse_dropping(job, reading.get(topology))\n",
        new="",
        tests=DROPPING,
        by="test_a_drop_that_dies_anywhere_is_ended_by_the_next",
    ),
    Mutant(
        name="jobs that have read a table do not keep it from being dropped",
        rule="R39",
        file="coordination/upkeep/drop_plan.py",
        old="        readers=tuple(left),\n",
        new="        readers=(),\n",
        tests=DROPPING,
        by="test_a_dropped_table_goes_with_its_only_job_and_its_readers_when_asked",
    ),
    Mutant(
        name="the last version of a dropped table goes before the grace of its readers",
        rule="R19",
        file="coordination/upkeep/dropped_files.py",
        old="newest.csn < csn <= horizon else newest",
        new="newest.csn < csn else newest",
        tests=DROPPING,
        by="test_files_of_what_was_dropped_go_after_the_grace_and_no_other",
    ),
    Mutant(
        name="files of a dropped table are orphans once the new one computes their epochs",
        rule="R19",
        file="coordination/upkeep/orphans.py",
        old="if remains.token > above]",
        new="if remains.token > 0 * above]",
        tests=DROPPING,
        by="test_a_lease_between_the_look_and_the_drop_keeps_its_rows_until_it_ends",
    ),
    Mutant(
        name="a session takes a table for the dropped one that it has seen",
        rule="R20",
        file="domain/session.py",
        old="if seen.csns[0] < born.get(name, 0)))",
        new="if seen.csns[0] < 0 * born.get(name, 0)))",
        tests=DROPPING,
        by="test_cuts_sessions_and_leases_of_before_are_not_of_the_new_table",
    ),
)
