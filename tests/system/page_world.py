"""A real Airflow with logins, and a store whose page has every state of an epoch on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex

import pyarrow as pa
import pytest

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.checks import row_count
from airflow_provider.domain.defaults import Defaults
from airflow_provider.domain.epoch import Attempt
from airflow_provider.domain.errors import CheckFailed, NotReady
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table
from airflow_provider.stores.factory import open_store
from airflow_provider.testing.arrow_attempts import write_rows
from demo.airflow_cluster import AirflowCluster
from demo.airflow_rest import AirflowRest
from demo.spark_connect import write_configuration
from tests.restated_rides import Rides
from tests.servers.ports import free_port

HERE = Path(__file__).parent
PLANTED = "<img src=x onerror=globalThis.planted=1>"
"""What would run in the page if a name or a note were ever taken for HTML."""
ODD_TABLE = f'größe & "co" {PLANTED}'
DAG = "city_day"
ODD_DAG = f"dag {PLANTED}"
DOMAIN = "city"
OTHER_DOMAIN = "rail & <i>road"
HARBOUR = "harbour"
"""Where people and retention have done what they can do."""
RIDES, RENTALS, TANDEMS, FERRIES = "rides", "rentals", "tandems", "ferries"
"""Domains with a restatement that is staged, with one in each state, and with one that is closing."""
FIRST = datetime(2013, 2, 1, tzinfo=UTC)
SUNDAY = datetime(2013, 1, 27, tzinfo=UTC)
FLIGHTS, WEATHER, ODD, TRAINS = (
    Job(
        name,
        outputs=[Table(table, domain=domain) for table in tables],
        cadence=cadence,
        origin=FIRST + timedelta(days=first_day - 1),
        on_rerun="new_revision",
    )
    for domain, name, cadence, first_day, tables in (
        (DOMAIN, "load_flights", "@daily", 5, ("flights", "cancelled_flights")),
        (DOMAIN, "load_weather", "@hourly", 1, ("weather",)),
        (DOMAIN, "odd & <b>ends", "@daily", 9, (ODD_TABLE,)),
        (OTHER_DOMAIN, "load_trains", "@daily", 1, ("trains",)),
    )
)
SHIPS = Job(
    "load_ships",
    outputs=[Table("ships", domain=HARBOUR, kind="full")],
    cadence="@daily",
    origin=FIRST,
    checks=[row_count("ships", at_least=1)],
    on_rerun="new_revision",
)
BARGES, SUCCESSOR = (
    Job(
        name,
        outputs=[Table(table, domain=HARBOUR) for table in tables],
        cadence="@daily",
        origin=FIRST,
    )
    for name, tables in (("load_barges", ("barges",)), ("barges_again", ("barges", "tugs")))
)
ROWBOATS = Job("load_rowboats", outputs=[Table("rowboats", domain=HARBOUR)], cadence="@daily", origin=FIRST)
PILOTS = Job(
    "weekly_pilots",
    outputs=[Table("pilots", domain=HARBOUR)],
    cadence="@weekly",
    origin=SUNDAY,
    inactive_after=1,
)
WHARVES = Job("load_wharves", outputs=[Table("wharves", domain=HARBOUR)], cadence="@daily")
SHIPS_STATES = {
    1: "committed, 3 rows",
    2: "expired, 3 rows",
    3: "check failed, readers get revision 1 with 3 rows",
    4: "skipped, 3 rows",
    5: "check failed",
    6: "missing",
    7: "committed, 3 rows",
}
"""What the page says of the ships, by the day of February."""
PATIENT = Defaults(lock_ttl=timedelta(days=1))
SHORT = Defaults(lock_ttl=timedelta(seconds=1))
STATES = {
    5: "open, readers get revision 1 with 3 rows",
    6: "committed again, revision 2, 6 rows",
    7: "committed, 3 rows",
    8: "aborted",
    9: "open, written",
    10: "precommit, written",
    11: "silent",
}
"""What the page says of the epochs of the flights, by the day of February."""
COMPUTED_AGAIN = 5
"""The day that is open, and whose committed rows readers still get."""


@dataclass(frozen=True, kw_only=True)
class PageWorld:
    """An Airflow that is up.

    :param passwords: by user; the user's role is its name.
    :param run: of the DAG ``make``, for 7 February.
    """

    settings: Settings
    cluster: AirflowCluster
    passwords: dict[str, str]
    run: str

    @property
    def base_url(self) -> str:
        return self.cluster.base_url


@contextmanager
def page_world(
    home: Path, content: Callable[[Settings], None] | None = None, *, makes_rows: bool = True
) -> Iterator[PageWorld]:
    """Fill a store, start Airflow, and stop it at the end.

    :param content: brings the epochs that the page shows; by default :func:`fill`.
    :param makes_rows: runs the DAG ``make``, which needs Spark.
    """
    settings = Settings(store_url=f"sqlite:///{home}/store.db", warehouse=f"file://{home}/warehouse")
    (content or fill)(settings)
    (home / "broken.db").write_bytes(b"this is no database, and not by accident" * 100)
    passwords = {name: token_hex(8) for name in ("admin", "viewer")}
    kept = home / "passwords.json"
    kept.write_text(json.dumps(passwords))
    write_configuration(home / "conf")
    cluster = AirflowCluster(
        home=home,
        dags=HERE / "airflow_dags",
        port=free_port(),
        python_path=[HERE.parents[1]],
        environment={
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{name}" for name in passwords),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(kept),
            "AIRFLOW__EPOCHS__CONNECTIONS": "epochs_default, epochs_broken",
            "AIRFLOW_CONN_EPOCHS_DEFAULT": connection(home, "store.db"),
            "AIRFLOW_CONN_EPOCHS_BROKEN": connection(home, "broken.db"),
            "AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[1]"}',
            "SPARK_CONF_DIR": str(home / "conf"),
            "EPOCHS_TEST_PROGRAM": str(HERE / "epoch_program.py"),
        },
    )
    cluster.rest = AirflowRest(cluster.base_url, login=("admin", passwords["admin"]))
    cluster.migrate()
    cluster.start()
    try:
        cluster.wait_until_healthy()
        run = make_rows(cluster.rest) if makes_rows else ""
        yield PageWorld(settings=settings, cluster=cluster, passwords=passwords, run=run)
    finally:
        cluster.stop()


def make_rows(rest: AirflowRest) -> str:
    rest.wait_for_dags({"make"})
    rest.unpause("make")
    run = rest.trigger("make", logical_date="2013-02-08T00:00:00Z")
    assert rest.wait_for_run("make", run) == "success"
    return run


def connection(home: Path, file: str) -> str:
    warehouse = {"warehouse": f"file://{home}/warehouse"}
    return json.dumps({"conn_type": "epochs", "host": f"{home}/{file}", "extra": warehouse})


# --- what is in the store --------------------------------------------------------------------------------------


def fill(settings: Settings) -> None:
    """Bring epochs into every state, by the calls that jobs make."""
    with (
        EpochService.open(settings, defaults=PATIENT) as service,
        EpochService.open(settings, defaults=SHORT) as hasty,
    ):
        for number in (5, 6, 7):
            commit(service, FLIGHTS, day(number))
        commit(service, FLIGHTS, day(6), cleared=1)
        begin(service, FLIGHTS, day(COMPUTED_AGAIN), cleared=1)
        service.abort(begin(service, FLIGHTS, day(8)), f"SparkException: {PLANTED} was no number")
        write(service, begin(service, FLIGHTS, day(9)), FLIGHTS.outputs[0].name)
        waiting = begin(service, FLIGHTS, day(10))
        for table in FLIGHTS.outputs:
            write(service, waiting, table.name)
        begin(hasty, FLIGHTS, day(11))
        for number in range(3):
            start = FIRST + timedelta(hours=number)
            commit(service, WEATHER, Interval(start, start + timedelta(hours=1)))
        commit(service, ODD, day(9), dag=ODD_DAG)
        commit(service, TRAINS, day(1))
        fill_harbour(service, settings)
        rides = Rides(service, RIDES)
        rides.commit(1, 2, 3)
        rides.open("harbour", needs_approval=True)
        rides.stage("harbour", 1, 2, 3)
        service.leases.cut(RIDES, ["rides"], name="report", owner="reports/yesterday")
        Rides(service, RENTALS).commit(1, 2, 3)
        fill_tandems(service)
        fill_ferries(service)


def fill_harbour(service: EpochService, settings: Settings) -> None:
    """Let epochs be expired, fail checks, be skipped and missed, and jobs be retired, inherited from and silent."""
    for number in (1, 2, 3, 7):
        commit(service, SHIPS, day(number))
    service.retention.expire(HARBOUR, "ships", day(2).end)
    for number, cleared in ((3, 1), (5, 0)):
        with pytest.raises(CheckFailed):
            commit(service, SHIPS, day(number), cleared=cleared, rows=0)
    service.skip(HARBOUR, SHIPS.name, day(4), "the harbour was closed", by="ada")
    commit(service, BARGES, day(1))
    service.retire(HARBOUR, BARGES.name, reason="renamed", by="ada")
    commit(service, SUCCESSOR, day(2))
    commit(service, ROWBOATS, day(1))
    service.retire(HARBOUR, ROWBOATS.name, reason="the pier is closed", by="ada")
    service.register(WHARVES)
    with closing(open_store(settings.store_url, now=lambda: datetime(2013, 2, 4, tzinfo=UTC))) as long_ago:
        then = EpochService(long_ago, service.formats, defaults=PATIENT)
        commit(then, PILOTS, Interval(SUNDAY, SUNDAY + timedelta(days=7)))


def fill_tandems(service: EpochService) -> None:
    """Let one restatement be published, another abandoned, and have members of every state in a third."""
    tandems = Rides(service, TANDEMS)
    tandems.commit(*range(1, 7))
    tandems.open("museum", 6)
    tandems.stage("museum", 6)
    service.restatements.publish(TANDEMS, "museum")
    tandems.open(f"pier {PLANTED}"[:60], 5)
    service.restatements.abandon(TANDEMS, f"pier {PLANTED}"[:60], reason="the code was right", by="ada")
    tandems.open("harbour", 2)
    tandems.stage("harbour", 2, 3)
    tandems.stage_one("harbour", tandems.load, 2, generation=1)
    tandems.begin("harbour", tandems.count, 2, generation=1)


def fill_ferries(service: EpochService) -> None:
    """Let a reader begin while a restatement is staged: its publish adds it, and keeps further ones back for a time."""
    ferries = Rides(service, FERRIES)
    ferries.commit(1, 2)
    ferries.open("harbour", 2)
    ferries.stage("harbour", 2)
    ferries.commit(3)
    with pytest.raises(NotReady):
        service.restatements.publish(FERRIES, "harbour")


def day(number: int) -> Interval:
    start = FIRST + timedelta(days=number - 1)
    return Interval(start, start + timedelta(days=1))


def begin(
    service: EpochService, job: Job, interval: Interval, *, dag: str = DAG, cleared: int = 0
) -> Attempt:
    run = Owner(dag_id=dag, run_id=f"scheduled__{interval.end.isoformat()}", generation=cleared)
    attempt = service.begin(job, interval, run)
    assert isinstance(attempt, Attempt)
    return attempt


def write(service: EpochService, attempt: Attempt, table: str, rows: int = 3) -> None:
    carriers = pa.array(["UA"] * rows * attempt.revision, pa.string())
    write_rows(service, attempt, table, pa.table({"carrier": carriers}))


def commit(
    service: EpochService,
    job: Job,
    interval: Interval,
    *,
    dag: str = DAG,
    cleared: int = 0,
    rows: int = 3,
) -> None:
    attempt = begin(service, job, interval, dag=dag, cleared=cleared)
    for table in job.outputs:
        write(service, attempt, table.name, rows)
    service.complete(attempt)
    service.publish(attempt)
