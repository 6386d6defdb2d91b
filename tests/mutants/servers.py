"""Wrong rules that only a server shows, or the threads and processes that share one."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CONNECTIONS = "stores/sql/postgresql/connections.py"
DIALECT = "stores/sql/postgresql/dialect.py"
FAILOVER = "tests/contract/test_postgresql_failover.py"
POOLER = "tests/contract/test_pgbouncer.py"
SCHEMA = "tests/contract/test_postgresql_schema.py"
SIZES = "tests/contract/test_zookeeper_sizes.py"
STATEMENTS = "stores/sql/postgresql/statements.py"
WAITING = "tests/integration/test_airflow_waiting.py"

PLANTED_IN_SERVERS = (
    Mutant(
        name="a promoted standby is the store that it copied",
        rule="R33",
        file="stores/sql/postgresql/incarnation.py",
        old="ELSE '@' || {_LINEAGE} END",
        new="ELSE '' END",
        tests=(FAILOVER,),
        servers=True,
        by="test_ha1_a_standby_without_the_last_commits_is_promoted",
    ),
    Mutant(
        name="a standby is read as if it were the store",
        rule="R3",
        file=CONNECTIONS,
        old="    if found[1]:\n",
        new="    if found[1] is None:\n",
        tests=(FAILOVER,),
        servers=True,
        by="test_ha2_a_reader_is_sent_to_a_standby",
    ),
    Mutant(
        name="the incarnation is read before the transaction that changes it is done",
        rule="R33",
        file=STATEMENTS,
        old='f"SELECT pg_advisory_xact_lock_shared({_OF_STORE}, 0)"',
        new='f"SELECT {_OF_STORE}"',
        tests=(FAILOVER,),
        servers=True,
        by="test_transaction_of_an_earlier_incarnation_waits_and_is_refused",
    ),
    Mutant(
        name="a migration takes the store's lock before the heads'",
        rule="R36",
        file=DIALECT,
        old="    driver.execute(statements.LOCK_HEADS)\n",
        new="",
        tests=(SCHEMA,),
        servers=True,
        by="test_a_migration_beside_publishers_waits_for_them_and_they_for_it",
    ),
    Mutant(
        name="behind a pooler no transaction that reads is told how long it may take",
        rule="R23",
        file=DIALECT,
        old="driver.execute(statements.opened(self.limits.settings()), prepare=False)",
        new="driver.execute(statements.BEGIN, prepare=False)",
        tests=(POOLER,),
        servers=True,
        by="test_limits_hold_in_reads_and_changes",
    ),
    Mutant(
        name="behind a pooler statements are prepared in sessions that others get",
        rule="R2",
        file=CONNECTIONS,
        old="        connection.prepare_threshold = None\n",
        new="        connection.prepare_threshold = 1\n",
        tests=(POOLER,),
        servers=True,
        by="test_many_threads_publish_side_by_side",
    ),
    Mutant(
        name="each thread has a connection for its turn",
        rule="R11",
        file=DIALECT,
        old="self._shared.queues[domain]\n",
        new="self._shared.queues[str(monotonic())]\n",
        tests=("tests/contract/test_publish_queue.py",),
        servers=True,
        by="test_threads_of_a_process_queue_with_one_connection",
    ),
    Mutant(
        name="each store and catalog of a process opens connections of its own",
        rule="R23",
        file=CONNECTIONS,
        old="        if engine is None:\n",
        new="        if engine is None or key:\n",
        tests=("tests/contract/test_postgresql_store.py",),
        servers=True,
        by="test_stores_and_catalogs_of_a_process_share_two_connections",
    ),
    Mutant(
        name="each trigger that finds no open store opens another",
        rule="R9",
        file="triggers/shared_reader.py",
        old="                if url not in self.opening:\n",
        new="                if url not in self.held:\n",
        tests=(WAITING,),
        by="test_triggers_of_several_domains_share_one_store",
    ),
    Mutant(
        name="a server that takes no more clients of a host is one that does not answer",
        rule="R17",
        file="stores/zookeeper/session.py",
        old='_DROPPED = "Connection dropped"',
        new='_DROPPED = "Connection refused"',
        tests=("tests/contract/test_zookeeper_security.py",),
        servers=True,
        by="test_one_client_too_many_is_told_so",
    ),
    Mutant(
        name="as many participants as one likes, whatever their names take in a transaction",
        rule="R10",
        file="domain/participation.py",
        old="return min(MOST_PARTICIPANTS, _REQUIREMENTS_BYTES // each)",
        new="return MOST_PARTICIPANTS if each else 0",
        tests=(SIZES,),
        servers=True,
        by="test_as_many_participants_as_are_accepted_fit_into_any_store",
    ),
    Mutant(
        name="tables are remembered at any head",
        rule="R3",
        file="stores/zookeeper/records.py",
        old="(table.head, table.generation) == (head, generation)",
        new="table.generation == generation",
        tests=("tests/contract/test_zookeeper_store.py",),
        servers=True,
        by="test_a_cut_over_many_tables_reads_few_nodes",
    ),
    Mutant(
        name="heads name one checkpoint for clients of format 1",
        rule="R36",
        file="stores/zookeeper/nodes.py",
        old='((transaction.hex(), 0), ("", 0), ())',
        new='(("", 0), ("", 0), ())',
        tests=("tests/contract/test_rolling_upgrade.py",),
        servers=True,
        by="test_an_older_version_reads_tables_that_this_one_writes_on_zookeeper",
    ),
    Mutant(
        name="a connection that is open goes on with the identity that the store had",
        rule="R33",
        file="stores/zookeeper/store.py",
        old="        self._renames += 1\n",
        new="        self._renames += 0\n",
        tests=("tests/contract/test_zookeeper_store.py",),
        servers=True,
        by="test_a_connection_that_outlives_a_new_incarnation_is_told",
    ),
)
