"""Wrong rules of the stores: what two versions of the package write, who a process is, and which store it works in."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CODEC = "tests/unit/test_codec.py"
DAG_AUTHOR = "tests/unit/test_dag_author.py"
FINGERPRINTS = "tests/unit/test_fingerprints.py"
FORKED = "tests/contract/test_forked_attempts.py"
RESTORING = "tests/contract/test_coordination_restoring.py"
SQLITE = "tests/contract/test_sqlite_store.py"

PLANTED_IN_STORES = (
    Mutant(
        name="a declaration is another one once its class has another name",
        rule="R7",
        file="stores/declarations.py",
        old="""    return f"{name}({', '.join(said)})\"""",
        new="""    return f"{type(value).__name__ or name}({', '.join(said)})\"""",
        tests=(FINGERPRINTS,),
        by="test_the_names_of_classes_say_nothing",
    ),
    Mutant(
        name="a field that comes later makes every declaration another one",
        rule="R7",
        file="stores/codec.py",
        old="        if is_later and value == _default(field):\n",
        new="        if is_later and value == _default(field) and not number:\n",
        tests=(FINGERPRINTS,),
        by="test_a_later_field_counts_where_it_is_used",
    ),
    Mutant(
        name="a declaration is the same one whatever it says in a later field",
        rule="R7",
        file="stores/declarations.py",
        old="    if not is_later:\n",
        new="    if plain:\n",
        tests=(FINGERPRINTS,),
        by="test_a_later_field_counts_where_it_is_used",
    ),
    Mutant(
        name="a source of which an older version has recorded no window is declared anew",
        rule="R7",
        file="stores/declarations.py",
        old='    "late_window": (None, timedelta(days=7)),\n',
        new='    "late_window": (None,),\n',
        tests=(FINGERPRINTS,),
        by="test_the_order_and_the_usual_window_say_nothing",
    ),
    Mutant(
        name="new declarations of an older store are spelled by the codec, which its other writers do not know",
        rule="R36",
        file="stores/declarations.py",
        old="    if not is_later:\n",
        new="    if is_later:\n",
        tests=("tests/contract/test_rolling_upgrade.py",),
        by="test_both_versions_tell_declarations_apart_alike",
    ),
    Mutant(
        name="children of a process draw the same request ids",
        rule="R10",
        file="coordination/context.py",
        old="random=random or SystemRandom()",
        new="random=random or Random()",
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
        name="values of the first format are read as if they had never been renamed",
        rule="R36",
        file="stores/codec.py",
        old="        return present_values(hint).get(plain, plain)\n",
        new="        return plain\n",
        tests=(CODEC,),
        by="test_the_first_format_keeps_its_names_of_fields_and_values",
    ),
    Mutant(
        name="what an older store cannot hold is left out without a word",
        rule="R36",
        file="stores/codec.py",
        old="if is_optional(field.metadata) or value == _default(field):",
        new="if True:",
        tests=(CODEC,),
        by="test_values_that_an_older_store_cannot_hold_are_refused",
    ),
    Mutant(
        name="a process that was open during the upgrade leaves optional fields out after it",
        rule="R36",
        file="stores/requests.py",
        old="if number < FORMAT and _has_later_fields(",
        new="if number < 0 and _has_later_fields(",
        tests=(SQLITE,),
        by="test_a_store_that_was_opened_before_the_upgrade_drops_no_field_after_it",
    ),
    Mutant(
        name="a process that was open during the upgrade shows engines rows beyond a gap",
        rule="R36",
        file="stores/sql/store.py",
        old="        if self._format < FORMAT:  # another process may have upgraded it since\n",
        new="        if self._format < 0:\n",
        tests=("tests/contract/test_coordination_upgrading.py",),
        by="test_a_process_of_before_the_upgrade_shows_engines_what_cuts_read",
    ),
    Mutant(
        name="an attempt of a replaced store is told that a newer one exists, which ends its task for good",
        rule="R33",
        file="coordination/attempts/fence.py",
        old="if reading.head.incarnation != attempt.incarnation:",
        new="if reading.head.incarnation == '':",
        tests=(RESTORING,),
        by="test_attempt_begun_before_the_restore_changes_nothing",
    ),
    Mutant(
        name="Airflow does not try a task again whose store was replaced",
        rule="R33",
        file="hooks/task_run.py",
        old="isinstance(error, LeaseExpired | StoreReplaced)",
        new="isinstance(error, LeaseExpired)",
        tests=(DAG_AUTHOR,),
        by="test_only_final_errors_end_the_retries",
    ),
)
