"""Wrong rules of publishing: where output is staged, whether it is there, and who comes first."""

from __future__ import annotations

from tests.mutants.mutant import RACES, REWRITES, Mutant

BEGINNING = "coordination/attempts/begin.py"
CALENDARS = "tests/contract/test_coordination_calendars.py"
DECISIONS = "tests/unit/test_decisions.py"
FOREIGN = "tests/contract/test_coordination_foreign.py"
ORPHANS = "tests/contract/test_coordination_orphans.py"
PARTICIPANTS = "tests/contract/test_coordination_participants.py"
PUBLISHING = "coordination/attempts/publish.py"
RETENTION = "tests/contract/test_coordination_retention.py"
SLOW_PUBLISHERS = "tests/contract/test_coordination_slow_publishers.py"

OF_PUBLISHING = (
    Mutant(
        name="a revision looks at the epochs of readers that ignore it",
        rule="R18",
        file="domain/registration.py",
        old="if edge.table == table and edge.on_upstream_revision is not OnUpstreamRevision.IGNORE",
        new="if edge.table == table",
        tests=(REWRITES,),
        by="test_a_revision_does_not_look_at_epochs_that_ignore_it",
    ),
    Mutant(
        name="old rewrites count for the time between them, which none touched",
        rule="R13",
        file="domain/rewrites.py",
        old="        place = min(gaps)[1]\n",
        new="        place = max(gaps)[1]\n",
        tests=(REWRITES, DECISIONS),
        by="test_time_between_rewrites_stays_unchanged",
    ),
    Mutant(
        name="what was adopted without a word of it is asked for again",
        rule="R17",
        file="coordination/commits/alter.py",
        old="            if now.version != stamped.version:\n                return\n",
        new="",
        tests=(FOREIGN,),
        by="test_adoption_with_a_lost_reply_is_found_done",
    ),
    Mutant(
        name="a publish beside another's adoption is told of other rows",
        rule="R17",
        file=PUBLISHING,
        old="            if all(now.of(sink.hot.key).version == sink.hot.version for sink in sinks):\n",
        new="            if now:\n",
        tests=(FOREIGN, RACES),
        by="test_two_publishes_adopt_once",
    ),
    Mutant(
        name="any number of participants begins",
        rule="R10",
        file="coordination/attempts/refusals.py",
        old="not 1 <= number <= most:",
        new="not 1 <= number:",
        tests=(PARTICIPANTS,),
        by="test_a_participant_ends_nothing_for_the_others",
    ),
    Mutant(
        name="what an attempt stages is named by the end of its epoch alone",
        rule="R16",
        file="tables/locations.py",
        old='start = "" if by_end else f"{time_key(interval.start)}-"',
        new='start = ""',
        tests=(CALENDARS,),
        by="test_chg2_last_hour_survives_rollback_of_the_failed_day",
    ),
    Mutant(
        name="publish does not look whether what it publishes is there",
        rule="I6",
        file=PUBLISHING,
        old="            if sink.table.name in self.verified:",
        new="            if sink.table.name not in self.verified:",
        tests=(CALENDARS,),
        by="test_chg2_publish_notices_a_missing_file",
    ),
    Mutant(
        name="a fenced try of a participant is kept once its attempt is published",
        rule="R16",
        file="domain/orphans.py",
        old="if participant_attempt < newest else None",
        new="if participant_attempt > newest else None",
        tests=(ORPHANS,),
        by="test_output_of_a_fenced_participant_try_is_vacuumed",
    ),
    Mutant(
        name="a publisher does not wait for who has reserved the head",
        rule="R11",
        file="coordination/attempts/reserve.py",
        old="left = None if self._held else time_left(stamped, reading.now)",
        new="left = None",
        tests=(SLOW_PUBLISHERS,),
        by="test_liv1_slow_beside_quick",
    ),
    Mutant(
        name="a publisher whose preparations are quick never reserves the head",
        rule="R11",
        file="domain/reservation.py",
        old="QUICK_LOST_BEFORE_RESERVING = 6",
        new="QUICK_LOST_BEFORE_RESERVING = 1000",
        tests=(SLOW_PUBLISHERS,),
        by="test_how_often_a_publisher_loses_before_it_reserves_the_head",
    ),
    Mutant(
        name="a publisher whose preparations are slow counts as quick",
        rule="R11",
        file="domain/reservation.py",
        old="QUICK_LOST_BEFORE_RESERVING if last_s <= QUICK_S else LOST_BEFORE_RESERVING",
        new="QUICK_LOST_BEFORE_RESERVING",
        tests=(SLOW_PUBLISHERS,),
        by="test_liv1_slow_beside_quick",
    ),
    Mutant(
        name="what was prepared before a reservation does not lose to it",
        rule="R11",
        file="coordination/attempts/reserve.py",
        old="        return (Exists(stamped.key, stamped.version),)",
        new="        return ()",
        tests=(SLOW_PUBLISHERS,),
        by="test_a_commit_that_was_prepared_before_the_reservation_loses",
    ),
    Mutant(
        name="an error that a retry cures deletes finished output",
        rule="R16",
        file="spark/attempt_run.py",
        old="if is_complete and isinstance(problem, RetryableError):",
        new="if is_complete and isinstance(problem, OutcomeUnknown):",
        tests=(SLOW_PUBLISHERS,),
        by="test_liv1_finished_output_is_adopted_after_an_error_that_a_retry_cures",
    ),
    Mutant(
        name="a try inherits what nobody claimed since the one before it ended",
        rule="R24",
        file=BEGINNING,
        old="if before is not None and before.aborted is None:",
        new="if before is not None:",
        tests=(RETENTION,),
        by="test_und3_a_try_after_one_that_ended_has_a_baseline_of_its_own",
    ),
    Mutant(
        name="a reader that began while a calendar changed publishes what it read by the old one",
        rule="R13",
        file="domain/rewrites.py",
        old="change = realigned_since(log.record, read, interval)",
        new="change = None",
        tests=(CALENDARS, DECISIONS),
        by="test_a_reader_that_begins_while_the_calendar_changes",
    ),
    Mutant(
        name="an edge that ignores revisions ignores a change of calendar, too",
        rule="R13",
        file="domain/rewrites.py",
        old="        change = realigned_since(log.record, read, interval)\n        if change is None and read",
        new="        change = None\n        if read.on_upstream_revision is not OnUpstreamRevision.IGNORE:\n"
        "            change = realigned_since(log.record, read, interval)\n        if change is None and read",
        tests=(CALENDARS,),
        by="test_a_reader_that_begins_while_the_calendar_changes",
    ),
    Mutant(
        name="a change of calendar makes exact readers begin again",
        rule="R13",
        file="domain/rewrites.py",
        old="    if read.high >= asked:\n        return None\n",
        new="",
        tests=(CALENDARS, DECISIONS),
        by="test_readers_with_the_same_barrier_in_the_new_calendar_publish",
    ),
    Mutant(
        name="a change of calendar takes the CSN of the rewrite before it",
        rule="R13",
        file="domain/rewrites.py",
        old="    if record.latest is not None and stamped.csn is not None:\n        earlier",
        new="    if record.latest is None and stamped.csn is not None:\n        earlier",
        tests=(DECISIONS,),
        by="test_changes_of_calendar_are_told_apart_and_stay",
    ),
)
