"""Wrong rules in rollbacks of a domain (R30)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

ROLLBACK = ("tests/contract/test_coordination_rollback.py",)
RACES = ("tests/contract/test_coordination_rollback_races.py",)
COMMITS = "coordination/upkeep/rollback_commits.py"
PLAN = "coordination/upkeep/rollback_plan.py"

PLANTED_IN_ROLLBACKS = (
    Mutant(
        name="a run whose commit was rolled back is told that it has committed",
        rule="R30",
        file="coordination/attempts/state_log.py",
        old=" and not record.has_taken_back(entry.csn)",
        new="",
        tests=ROLLBACK,
        by="test_the_first_run_is_not_told_of_its_own_commit",
    ),
    Mutant(
        name="an edge that ignores revisions publishes what it has read of epochs that were rolled back",
        rule="R13",
        file="domain/rewrites.py",
        old="change = taken_back_since(log.record, read) or realigned_since(",
        new="change = realigned_since(",
        tests=ROLLBACK,
        by="test_an_attempt_that_has_read_what_is_taken_back_is_refused",
    ),
    Mutant(
        name="a session that has seen what was rolled back goes on",
        rule="R20",
        file="domain/session.py",
        old="                if any(rollback.has_taken(name, csn) for rollback in known):\n",
        new="                if not known and csn:\n",
        tests=ROLLBACK,
        by="test_a_session_that_has_seen_more_is_told",
    ),
    Mutant(
        name="a session forgets what it has seen once it has seen more",
        rule="R20",
        file="domain/session.py",
        old="            earlier=tuple(csns[:-1][-MOST_EARLIER:]),\n",
        new="            earlier=(),\n",
        tests=ROLLBACK,
        by="test_a_session_is_told_also_when_it_has_seen_more_since",
    ),
    Mutant(
        name="a revision that was rolled back is given out again",
        rule="R30",
        file="domain/beginning.py",
        old="0 if epoch.taken_back is None else epoch.taken_back.revision) + 1",
        new="0) + 1",
        tests=ROLLBACK,
        by="test_an_epoch_that_was_rolled_back_is_not_committed",
    ),
    Mutant(
        name="an epoch that was committed at the CSN, and computed again since, goes",
        rule="R30",
        file=COMMITS,
        old="        if since[0][0].is_first:\n",
        new="        if since:\n",
        tests=ROLLBACK,
        by="test_what_is_in_the_way_is_named",
    ),
    Mutant(
        name="a CSN whose epochs an earlier rollback has taken back is gone back to",
        rule="R30",
        file=PLAN,
        old="            if entry.to < self.to < entry.csn:\n",
        new="            if entry.to > self.to > entry.csn:\n",
        tests=RACES,
        by="test_a_csn_before_an_earlier_rollback_is_not_gone_back_to",
    ),
    Mutant(
        name="a state that retention has expired is what a rollback leads to",
        rule="R24",
        file=PLAN,
        old="            if expired.range_at(name, barrier) is not None:\n",
        new="            if expired.range_at(name, barrier) is not None and not own:\n",
        tests=ROLLBACK,
        by="test_what_is_in_the_way_is_named",
    ),
    Mutant(
        name="a table that reaches further back since begins where it never began",
        rule="R30",
        file=PLAN,
        old=" != expected or (known is not None and known.origin != after.origin):\n",
        new=" is not None and after.watermark != expected:\n",
        tests=ROLLBACK,
        by="test_a_table_that_reaches_further_back_since_is_refused",
    ),
    Mutant(
        name="an epoch that was committed since a rollback was shown is taken back unseen",
        rule="R30",
        file="coordination/upkeep/rollback.py",
        old="        if (look.plan.epochs, look.plan.tables) != (self.seen.epochs, self.seen.tables):\n",
        new="        if look.plan.to != self.seen.to:\n",
        tests=ROLLBACK,
        by="test_what_was_shown_is_rolled_back_or_nothing",
    ),
    Mutant(
        name="a rollback whose reply was lost is made of what has been committed since",
        rule="R15",
        file="coordination/upkeep/rollback.py",
        old="        if done is not None:  # an",
        new="        if done is not None and done.csn < 0:  # an",
        tests=RACES,
        by="test_a_rollback_whose_reply_is_lost_is_made_once",
    ),
    Mutant(
        name="a source that a job of another domain has left is no reader",
        rule="R34",
        file="coordination/upkeep/rollback_readers.py",
        old="            for source in (*job.sources, *job.left_sources):\n",
        new="            for source in job.sources:\n",
        tests=RACES,
        by="test_another_domain_that_has_read_it_is_in_the_way",
    ),
    Mutant(
        name="another domain that has read a compaction of what goes is no reader",
        rule="R34",
        file="coordination/upkeep/rollback_readers.py",
        old=" or (first is not None and bounds.at >= first)\n",
        new="\n",
        tests=RACES,
        by="test_another_domain_that_has_read_a_compaction_of_it_is_in_the_way",
    ),
    Mutant(
        name="engines without cuts still see what was rolled back, once the reply was lost",
        rule="R17",
        file="coordination/upkeep/rollback.py",
        old="            follow_last(self.context, self._domain)\n",
        new="",
        tests=RACES,
        by="test_a_rollback_whose_reply_is_lost_is_made_once",
    ),
)
