"""Wrong rules of the stores: what two versions of the package write, who a process is, and which store it works in."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CODEC = "tests/unit/test_codec.py"
DAG_AUTHOR = "tests/unit/test_dag_author.py"
FORKED = "tests/contract/test_forked_attempts.py"
RESTORING = "tests/contract/test_coordination_restoring.py"
SQLITE = "tests/contract/test_sqlite_store.py"

PLANTED_IN_STORES = (
    Mutant(
        name="children of a process draw the same request ids",
        rule="R10",
        file="coordination/coordinator.py",
        old="self.random = random or SystemRandom()",
        new="self.random = random or Random()  # noqa: S311",
        tests=(FORKED,),
        by="test_fork1_two_children_begin_one_epoch",
    ),
    Mutant(
        name="a session does not know where it has published",
        rule="R20",
        file="domain/session.py",
        old="first = self.incarnation or incarnation",
        new="first = self.incarnation",
        tests=(RESTORING,),
        by="test_readers_of_before_are_told",
    ),
    Mutant(
        name="a store of an older format gets fields that its other writers do not know",
        rule="R36",
        file="stores/codec.py",
        old="    if number < FORMAT:\n        body = _as_older(",
        new="    if number < 0:\n        body = _as_older(",
        tests=(CODEC, SQLITE),
        by="test_an_older_store_gets_no_newer_field",
    ),
    Mutant(
        name="what an older store cannot hold is left out without a word",
        rule="R36",
        file="stores/codec.py",
        old="elif is_optional(field.metadata) or value == _default(field):",
        new="elif True:",
        tests=(CODEC,),
        by="test_what_an_older_store_cannot_hold_is_refused",
    ),
    Mutant(
        name="an attempt of a replaced store is told that a newer one exists, which ends its task for good",
        rule="R33",
        file="coordination/fencing.py",
        old="if reading.head.incarnation != attempt.incarnation:",
        new="if reading.head.incarnation == '':",
        tests=(RESTORING,),
        by="test_what_was_begun_before_changes_nothing",
    ),
    Mutant(
        name="Airflow does not try a task again whose store was replaced",
        rule="R33",
        file="hooks/task_run.py",
        old="except (LeaseExpired, StoreReplaced):",
        new="except LeaseExpired:",
        tests=(DAG_AUTHOR,),
        by="test_only_what_no_retry_cures_ends_the_retries",
    ),
)
