"""Wrong rules about runs: what starts them, what their schedule computes, how they wait, and what an error tells."""

from __future__ import annotations

from tests.mutants.mutant import REWRITES, Mutant

AUTHOR = "tests/unit/test_dag_author.py"
ERRORS = "tests/unit/test_errors.py"
ASSET_RUNS = "tests/unit/test_asset_runs.py"
WAITING = "tests/integration/test_airflow_waiting.py"
MANY = "tests/integration/test_airflow_many_waiters.py"
WORKERLESS = "tests/integration/test_airflow_without_worker.py"
LOG = "tests/integration/test_airflow_wait_log.py"
LEASED = "tests/integration/test_airflow_leased_cut.py"
CUTS = "tests/contract/test_coordination_waiting_for_cuts.py"

PLANTED_IN_RUNS = (
    Mutant(
        name="an event causes the epoch before the one that it names",
        rule="R37",
        file="domain/schedule.py",
        old="        end = runs.next_after(event.start)\n",
        new="        end = runs.floor(event.start)\n",
        tests=(ASSET_RUNS,),
        by="test_ast1_run_started_by_assets_computes_the_epochs_of_their_events",
    ),
    Mutant(
        name="epochs between those that events name are computed, too",
        rule="R37",
        file="domain/schedule.py",
        old="        if joined and joined[-1].end == start:\n",
        new="        if joined:\n",
        tests=(ASSET_RUNS,),
        by="test_ast1_run_started_by_assets_computes_the_epochs_of_their_events",
    ),
    Mutant(
        name="the event of a restatement asks for its epochs once more",
        rule="R37",
        file="hooks/task_run.py",
        old="[extra for extra in _extras(run) if not extra.get(RESTATEMENT)]",
        new="_extras(run)",
        tests=(ASSET_RUNS,),
        by="test_ast1_the_event_of_a_restatement_asks_for_no_committed_epoch_again",
    ),
    Mutant(
        name="a task that has published nothing tells Airflow of its tables",
        rule="R35",
        file="operators/assets.py",
        old="    own = [asset_of(table) for table in job.outputs]\n",
        new="    own = [asset_of(table) for table in job.outputs[1:]]\n",
        tests=(ASSET_RUNS,),
        by="test_a_task_that_has_published_nothing_sends_no_event",
    ),
    Mutant(
        name="epochs that a schedule leaves out are no gap",
        rule="R38",
        file="domain/coverage.py",
        old="                if before is not None and before.end != found.start:\n",
        new="                if before is not None and before.end > found.start:\n",
        tests=(AUTHOR,),
        by="test_a_schedule_that_does_not_fit_the_cadence_is_told_when_the_dag_is_parsed",
    ),
    Mutant(
        name="of several epochs only the first is asked whether it may be computed again",
        rule="R18",
        file="coordination/attempts/rerun.py",
        old="    for epoch in again:\n",
        new="    for epoch in again[:1]:\n",
        tests=(REWRITES,),
        by="test_a_batch_that_may_not_be_computed_whole_is_refused_before_its_first_epoch",
    ),
    Mutant(
        name="a wait for an epoch does not see another run's lock",
        rule="I9",
        file="coordination/reading/wait.py",
        old="    if live is None or (live[0].dag_id, live[0].run_id) == run:\n",
        new="    if live is None or live[0].run_id != run[1]:\n",
        tests=(WAITING,),
        by="test_a_busy_epoch_is_waited_for_and_spends_no_retry",
    ),
    Mutant(
        name="a record that was newer than the head of its reading is not looked at again",
        rule="R35",
        file="triggers/questions.py",
        old="if (stamped.csn or 0) > csn\n",
        new="if False\n",
        tests=(MANY,),
        by="test_a_record_that_was_newer_than_the_head_is_looked_at_again",
    ),
    Mutant(
        name="what changed between two readings of one look is not asked again",
        rule="R35",
        file="triggers/questions.py",
        old="            self.unsettled.update(changed)\n",
        new="            del changed\n",
        tests=(MANY,),
        by="test_what_two_questions_read_at_different_times_is_asked_again",
    ),
    Mutant(
        name="a trigger that waits for a lock is not asked again when the lock has ended",
        rule="R35",
        file="triggers/questions.py",
        old="                if answer.found.ends_by_clock or answer.scans:\n",
        new="                if answer.scans:\n",
        tests=(MANY,),
        by="test_a_lock_that_ends_by_time_wakes_who_waits_for_it",
    ),
    Mutant(
        name="what was listed before the last reading of a look counts as listed after it",
        rule="R35",
        file="triggers/questions.py",
        old="        self._head = snapshot.head\n",
        new="        self._head = reading.head\n",
        tests=(MANY,),
        by="test_what_a_question_has_listed_is_listed_again",
    ),
    Mutant(
        name="the failure of a later epoch than the awaited one ends a sensor",
        rule="R35",
        file="coordination/reading/bringers.py",
        old=" or (lag.wanted is not None and lacks.start >= lag.wanted)",
        new="",
        tests=(LOG,),
        by="test_the_failure_of_an_epoch_that_is_not_waited_for_ends_nothing",
    ),
    Mutant(
        name="a sensor that a trigger has begun waits for each time-out anew",
        rule="R35",
        file="triggers/epochs.py",
        old='            began = as_utc(self.timeout_after, "timeout") - timedelta(seconds=self.trigger_timeout)\n',
        new="            began = datetime.now(UTC)\n",
        tests=(WORKERLESS,),
        by="test_the_time_out_is_of_the_whole_wait_and_says_what_is_missing",
    ),
    Mutant(
        name="a run that assets have started waits by its trigger's clock",
        rule="R37",
        file="triggers/epochs.py",
        old="        if self._context is None or (started_by_assets(run) and not run.partition_key):\n",
        new="        if self._context is None:\n",
        tests=(WORKERLESS,),
        by="test_a_run_that_assets_have_started_is_found_out_about_by_a_worker",
    ),
    Mutant(
        name="a sensor is ready at an earlier barrier than that of its run",
        rule="R19",
        file="coordination/reading/cut_readiness.py",
        old="    if at == barrier or (newest and at > barrier):\n",
        new="    if at:\n",
        tests=(CUTS,),
        by="test_it_is_ready_where_a_reader_gets_the_cut",
    ),
    Mutant(
        name="a cleared sensor leases the cut of before",
        rule="R22",
        file="hooks/leased.py",
        old='name=f"sensor-{instance.id}"',
        new='name=f"sensor-{run.run_id}"',
        tests=(LEASED,),
        by="test_a_try_that_ends_twice_has_one_lease_and_another_try_another_one",
    ),
    Mutant(
        name="retries that an author lowers count as a clearing",
        rule="R10",
        file="hooks/task_run.py",
        old="generation=max(granted, 0) if cleared else 0,",
        new="generation=max(granted, 0),",
        tests=(AUTHOR,),
        by="test_retries_that_an_author_lowers_are_no_clearing",
    ),
    Mutant(
        name="an error that went to another process has lost what is optional",
        rule="R10",
        file="domain/error_families.py",
        old="{entry.name: getattr(self, entry.name) for entry in fields(self)}",
        new="{entry.name: getattr(self, entry.name) for entry in fields(self) if entry.default is MISSING}",
        tests=(ERRORS,),
        by="test_errors_survive_pickling_to_another_process",
    ),
    Mutant(
        name="details of an error leave out what was given",
        rule="R10",
        file="domain/error_families.py",
        old="if entry.default is MISSING or values[entry.name] != entry.default",
        new="if entry.default is MISSING",
        tests=(ERRORS,),
        by="test_errors_survive_pickling_to_another_process",
    ),
)
