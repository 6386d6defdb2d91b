"""What a DAG's author may write, and what each mistake is told, when the DAG is parsed."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

import pendulum
import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException
from airflow.sdk import DAG, Asset, task
from airflow.sdk.api.datamodels._generated import DagRunType
from airflow.timetables.trigger import CronTriggerTimetable as AirflowsTimetable

from airflow_provider.domain.coverage import by_cron
from airflow_provider.domain.errors import (
    DependentReaders,
    EpochBusy,
    Fenced,
    InvalidInput,
    LeaseExpired,
    NotReady,
    OutcomeUnknown,
    StoreReplaced,
    StoreUnavailable,
)
from airflow_provider.domain.interval import Cadence, Interval
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.topology import Job, Table, previous
from airflow_provider.hooks.task_run import (
    final_errors_end_retries,
    task_barrier,
    task_interval,
    task_intervals,
    task_owner,
)
from airflow_provider.links.epochs import EpochGridLink, grid_link
from airflow_provider.operators.assets import asset_of
from airflow_provider.operators.decorator import epoch_task
from airflow_provider.operators.participants import EpochCommitOperator, epoch_task_group
from airflow_provider.operators.spark_submit import EpochSparkSubmitOperator
from airflow_provider.sensors.epochs import EpochSensor
from airflow_provider.triggers.epochs import EpochTrigger
from tests.airflow_runs import DAY_END, task_context
from tests.airflow_versions import (
    AssetOrTimeSchedule,
    CronDataIntervalTimetable,
    CronTriggerTimetable,
    DagSerialization,
    MultipleCronTriggerTimetable,
    partitioned,
    since,
)

A, B, C, D = Table("a"), Table("b"), Table("c"), Table("d")
JOB = Job("job", inputs=[A, B, previous(C)], outputs=[C], cadence="@daily")
ELSEWHERE = Table("a", domain="other")
NAIVE = datetime(2013, 2, 8)  # noqa: DTZ001 - that is what is wrong with it
NOON = datetime(2013, 2, 7, 12, tzinfo=UTC)
WRONG_INTERVALS = (
    5,
    NAIVE,
    "sometimes",
    "2013-02-07T12",
    ["2013-02-07"],
    (NAIVE, DAY_END),
    (NAIVE, "{{ data_interval_end }}"),
    Interval(NOON, DAY_END),
    {"start": "2013-02-07"},
)


def sensor(**options: Any) -> EpochSensor:
    return EpochSensor(task_id="wait", **options)


def submit(**options: Any) -> EpochSparkSubmitOperator:
    return EpochSparkSubmitOperator(task_id="compute", application="job.py", **options)


def decorated(function: Callable[..., Any], **options: Any) -> Any:
    with DAG("dag", schedule=None):
        return epoch_task(**options)(function)().operator


def grouped(function: Callable[..., Any], **options: Any) -> DAG:
    """A DAG in which three participants call *function*, after a task that it follows."""
    with DAG("dag", schedule=None, start_date=datetime(2013, 1, 1, tzinfo=UTC)) as dag:
        group = epoch_task_group(**{"job": JOB, "participants": 3, "group_id": "parts", **options})(function)
        wait = sensor(tables=[A])
        wait >> group(**({"factor": 2} if function is compute else {})) >> submit(job=JOB)
    return dag


def compute(epoch: Any, factor: int = 1) -> None:
    raise AssertionError((epoch, factor))


def computed(**options: Any) -> Any:
    return decorated(compute, **options)


def without_epoch() -> None:
    raise AssertionError


def with_rest(epoch: Any, *rest: Any) -> None:
    raise AssertionError((epoch, rest))


def with_nameless(epoch: Any, /) -> None:
    raise AssertionError(epoch)


# --- mistakes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mistake", "field"),
    [
        (sensor, "tables"),
        (lambda: sensor(tables=[]), "tables"),
        (lambda: sensor(tables=["a"]), "tables"),
        (lambda: sensor(tables="ab"), "tables"),
        (lambda: sensor(tables=[A], job=JOB), "tables"),
        (lambda: sensor(tables=[A, ELSEWHERE]), "tables"),
        (lambda: sensor(job="job"), "job"),
        (lambda: sensor(job=Job("x", outputs=[C], cadence="@daily")), "tables"),
        (lambda: sensor(tables=[A], cadence="sometimes"), "cadence"),
        (lambda: sensor(tables=[A], cadence=5), "cadence"),
        (lambda: submit(job="job"), "job"),
        (lambda: submit(job=None), "job"),
        (lambda: submit(job=A), "job"),
        (lambda: submit(job=JOB, batch="often"), "cadence"),
        (lambda: submit(job=JOB, batch=7), "batch"),
        (lambda: decorated(compute, job="job"), "job"),
        (lambda: decorated(compute, job=JOB, batch=7), "batch"),
        (lambda: decorated(compute, job=JOB, commit="all"), "commit"),
        (lambda: decorated(compute, job=JOB, commit="together"), "commit"),
        (lambda: decorated(without_epoch, job=JOB), "python_callable"),
        (lambda: decorated(with_rest, job=JOB), "python_callable"),
        (lambda: decorated(with_nameless, job=JOB), "python_callable"),
        (lambda: grouped(compute, job="job"), "job"),
        (lambda: grouped(compute, participants=0), "participants"),
        (lambda: grouped(compute, participants=True), "participants"),
        (lambda: grouped(compute, participants=2.5), "participants"),
        (lambda: grouped(compute, participants="many"), "participants"),
        (lambda: grouped(compute, interval="2013-02"), "interval"),
        (lambda: grouped(compute, lock_ttl=5), "lock_ttl"),
        (lambda: grouped(compute, lock_ttl=timedelta(seconds=1)), "lock_ttl"),
        (lambda: EpochCommitOperator(task_id="commit", job=JOB, epoch=5), "epoch"),
        (lambda: grouped(without_epoch), "python_callable"),
        (lambda: grouped(with_rest), "python_callable"),
        (lambda: EpochCommitOperator(task_id="commit", job=A, epoch="?"), "job"),
    ],
)
def test_a_mistake_in_a_dag_is_told_when_it_is_parsed(mistake: Callable[[], Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        mistake()
    assert caught.value.details["field"] == field


@pytest.mark.parametrize("interval", WRONG_INTERVALS, ids=repr)
@pytest.mark.parametrize("make", [submit, computed, partial(grouped, compute)])
def test_an_interval_that_no_run_can_compute(make: Callable[..., Any], interval: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        make(job=JOB, interval=interval)
    assert caught.value.details["field"] == "interval"


@pytest.mark.parametrize("at", [5, NAIVE, "sometimes", ["2013-02-08"], DAY_END.date()], ids=repr)
def test_a_barrier_that_no_run_can_read_at(at: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        sensor(tables=[A], at=at)
    assert caught.value.details["field"] == "at"


@pytest.mark.parametrize("conn_id", [5, "", None, "two words", "{{ var.value.store }}"])
@pytest.mark.parametrize(
    ("make", "field"),
    [
        (partial(sensor, tables=[A]), "epochs_conn_id"),
        (partial(submit, job=JOB), "epochs_conn_id"),
        (partial(computed, job=JOB), "epochs_conn_id"),
        (partial(computed, job=JOB), "spark_conn_id"),
        (partial(grouped, compute), "epochs_conn_id"),
        (partial(grouped, compute), "spark_conn_id"),
    ],
)
def test_an_id_that_no_connection_can_have(make: Callable[..., Any], field: str, conn_id: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        make(**{field: conn_id})
    assert caught.value.details["field"] == field


def test_an_unknown_argument_is_airflows_own_error() -> None:
    with pytest.raises(TypeError, match="tabels"):
        sensor(tables=[A], tabels=[A])


# --- what is right -------------------------------------------------------------------------------------------


def test_a_sensor_on_a_job_waits_for_all_that_the_job_reads() -> None:
    assert sensor(job=JOB).tables == ["a", "b", "c"]


def test_outlets_are_the_jobs_tables_and_the_authors_assets() -> None:
    mine = Asset("mine")
    assert submit(job=JOB).outlets == [asset_of(C)]
    assert submit(job=JOB, outlets=[mine, asset_of(C)]).outlets == [mine, asset_of(C)]
    assert decorated(compute, job=JOB, outlets=[mine]).outlets == [mine, asset_of(C)]
    assert sensor(tables=[A], inlets=[mine]).inlets == [mine, asset_of(A)]


def test_producer_and_consumer_name_the_same_asset() -> None:
    assert asset_of(A) == asset_of(Table("a", partition_by=("x",)))
    assert asset_of(A).uri == "epoch://default/a"
    assert asset_of(A) != asset_of(ELSEWHERE)


def test_all_three_survive_airflows_serialization() -> None:
    with DAG("dag", schedule="@daily", start_date=datetime(2013, 1, 1, tzinfo=UTC)) as dag:
        wait = sensor(
            tables=[A, B], at=datetime(2013, 2, 8, tzinfo=UTC), cadence=Cadence("@daily", "Europe/Berlin")
        )
        wait >> submit(job=JOB, interval=Interval(datetime(2013, 2, 7, tzinfo=UTC), DAY_END), batch="@daily")
        task.epoch(job=JOB)(compute)(factor=3)
    text = json.dumps(DagSerialization.to_dict(dag))
    again = DagSerialization.from_dict(json.loads(text))
    assert {operator.task_id for operator in again.tasks} == {"wait", "compute", "compute__1"}
    assert "Epochs" in again.get_task("compute").extra_links


@pytest.mark.parametrize(
    "interval",
    [
        None,
        "",
        "2013-02-07",
        "2013-02",
        "{{ dag_run.conf['day'] }}",
        "{% if params.day %}{{ params.day }}{% endif %}",
        ("2013-02-07", DAY_END),
        ("{{ data_interval_start }}", "{{ data_interval_end }}"),
        ["2013-02-07", "{{ ds }}"],
        Interval(datetime(2013, 2, 7, tzinfo=UTC), DAY_END),
        lambda context, **_: context["ds"],
    ],
)
def test_valid_interval_is_taken_unchanged(interval: Any) -> None:
    assert submit(job=JOB, interval=interval).interval == interval
    assert computed(job=JOB, interval=interval).interval == interval


@pytest.mark.parametrize("at", [None, "", "2013-02-08", "{{ ds }}", DAY_END, Interval(NOON, DAY_END)])
def test_where_a_run_may_read_is_taken_as_it_is(at: Any) -> None:
    assert sensor(tables=[A], at=at).at == at


def test_interval_from_another_task_is_resolved_by_the_run() -> None:
    @task
    def days() -> list[str]:
        raise AssertionError

    with DAG("dag", schedule=None):
        day = days()
        assert submit(job=JOB, interval=day).interval == day
        assert EpochSensor(task_id="one_end", tables=[A], at=day).at == day
        pair = EpochSparkSubmitOperator(
            task_id="pair", job=JOB, application="job.py", interval=[day, DAY_END]
        )
    assert pair.interval == [day, DAY_END]
    assert pair.upstream_task_ids == {"days"}


def test_a_wrong_share_of_a_mapped_task_ends_its_retries() -> None:
    """It is made again in its run, where nothing but what ``execute`` raises can end them."""
    with DAG("dag", schedule=None):
        mapped = EpochSparkSubmitOperator.partial(task_id="x", job=JOB, application="job.py").expand(
            interval=["2013-02-07", "sometimes"]
        )
    unmapped = mapped.unmap({"interval": "sometimes"})
    with pytest.raises(AirflowFailException, match="interval.*sometimes"):
        unmapped.execute(task_context())


def test_mapping_over_intervals() -> None:
    with DAG("dag", schedule=None):
        mapped = EpochSparkSubmitOperator.partial(task_id="x", job=JOB, application="job.py").expand(
            interval=["2013-02-07", "2013-02-08"]
        )
    assert mapped.partial_kwargs["job"] == JOB


def test_a_group_begins_maps_and_commits() -> None:
    """R10: the participants come after the begin, the commit after all of them; only it announces tables."""
    dag = grouped(compute, retries=4, pool="spark", participants="{{ params.parts }}")
    assert {operator.task_id: operator.downstream_task_ids for operator in dag.tasks} == {
        "wait": {"parts.begin"},
        "parts.begin": {"parts.write", "parts.commit"},
        "parts.write": {"parts.commit"},
        "parts.commit": {"compute"},
        "compute": set(),
    }
    tasks = [dag.get_task(f"parts.{name}") for name in ("begin", "write", "commit")]
    assert [operator.outlets for operator in tasks] == [[], [], [asset_of(C)]]
    assert {(operator.retries, operator.pool) for operator in tasks} == {(4, "spark")}
    again = DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(dag))))
    assert {operator.task_id for operator in again.tasks if operator.is_mapped} == {"parts.write"}
    assert "participants" in again.get_task("parts.begin").template_fields


# --- runs ----------------------------------------------------------------------------------------------------


def test_run_gives_interval_and_barrier() -> None:
    context = task_context()
    assert task_interval(context, Cadence("@daily")).end == DAY_END
    assert (
        len(Cadence("@hourly").split(task_interval(context, Cadence("@hourly"), batch=Cadence("@daily"))))
        == 24
    )
    assert task_barrier(context) == DAY_END


@since(3, 2)
def test_partition_key_gives_the_barrier() -> None:
    assert task_barrier(task_context(partition_key="2013-02-03")) == datetime(2013, 2, 4, tzinfo=UTC)


def test_a_manual_run_without_a_date_reads_at_the_time_it_may_start() -> None:
    context = task_context(run_date=None, run_type=DagRunType.MANUAL)
    assert task_barrier(context) == DAY_END
    assert task_intervals(context, Job("daily", outputs=[C], cadence="@daily")) == [
        Interval(DAY_END - timedelta(days=1), DAY_END)
    ]


# --- the DAG's schedule --------------------------------------------------------------------------------------


def scheduled(schedule: Any, cadence: Any, **options: Any) -> None:
    job = Job("job", outputs=[C], cadence=cadence)
    with DAG("dag", schedule=schedule, start_date=datetime(2013, 1, 1, tzinfo=UTC)):
        submit(job=job, **options)


DAYS = CronTriggerTimetable("@daily", timezone="UTC")
BERLIN = Cadence("@daily", "Europe/Berlin")
HALF_A_DAY = timedelta(hours=12)
BATCH = Cadence("0 */2 * * *", "Europe/Berlin")
EACH_HOUR = CronTriggerTimetable("0 0-23 * * *", timezone="Europe/Berlin")
SECOND_HOURS = CronTriggerTimetable("0 */2 * * *", timezone="Europe/Berlin")


@pytest.mark.parametrize(
    ("schedule", "cadence", "options", "told"),
    [
        ("@daily", "@hourly", {}, "computes 1 epoch and misses 23"),
        ("@hourly", "@daily", {}, "the run before has computed 1"),
        ("@hourly", "@hourly", {"batch": "@daily"}, "computes 24 epochs, of which the run before has computed 24"),
        ("0 6 * * 1-5", "@daily", {}, "2024-01-15.*misses 2"),
        (timedelta(days=1), "@hourly", {}, "misses 23"),
        (CronDataIntervalTimetable("@hourly", timezone="UTC"), "@daily", {}, "cannot say what it computes"),
        (CronTriggerTimetable("0 1 * * *", timezone="Europe/Berlin"), "@daily", {}, "2024-03-31.*computed 1"),
        (CronTriggerTimetable("@daily", timezone="UTC", interval=HALF_A_DAY), "@daily", {}, "cannot say"),
        ("@daily", "@daily", {"batch": "@weekly"}, "computes 7 epochs, of which the run before has computed 7"),
        pytest.param(
            partitioned("@daily", timezone="UTC", run_offset=-1), "@hourly", {}, "misses 23", marks=since(3, 2)
        ),
        (AssetOrTimeSchedule(assets=[asset_of(A)], timetable=DAYS), "@hourly", {}, "misses 23"),
        (SECOND_HOURS, Cadence("0 */2 * * *", "Europe/Berlin"), {}, "2024-03-31.*computed 1"),
        ("*/10 6-22 * * *", "*/10 * * * *", {}, "misses 42"),
        ("0 * * * 1-5", "@hourly", {}, "2024-01-15.*misses 48"),
        (EACH_HOUR, Cadence("0 0-23 * * *", "Europe/Berlin"), {}, "2024-10-27.*computed 1"),
        (SECOND_HOURS, Cadence("@hourly", "Europe/Berlin"), {"batch": BATCH}, "2024-03-31.*computed 2"),
        (MultipleCronTriggerTimetable("0 6 * * *", "0 18 * * *", timezone="UTC"), "@daily", {}, "computed 1"),
        (MultipleCronTriggerTimetable("0 6 * * *", "0 18 * * *", timezone="UTC"), "@hourly", {}, "misses 11"),
    ],
)  # fmt: skip
def test_a_schedule_that_does_not_fit_the_cadence_is_told_when_the_dag_is_parsed(
    schedule: Any, cadence: Any, options: dict[str, Any], told: str
) -> None:
    """R38: it would be green, and compute one hour of 24."""
    with pytest.raises(InvalidInput, match=told) as caught:
        scheduled(schedule, cadence, **options)
    assert caught.value.details["field"] == "schedule"


@pytest.mark.parametrize(
    ("schedule", "cadence", "options"),
    [
        ("@daily", "@daily", {}),
        ("0 3 * * *", "@daily", {}),
        ("@daily", "@hourly", {"batch": "@daily"}),
        ("@daily", "@hourly", {"interval": "{{ ds }}"}),
        ("0 6 * * 1-5", "@daily", {"batch": "0 0 * * 1-5"}),
        (CronDataIntervalTimetable("@daily", timezone="UTC"), "@hourly", {}),
        (CronTriggerTimetable("30 2 * * *", timezone="Europe/Berlin"), BERLIN, {}),
        ("0 1 * * *", BERLIN, {}),
        (timedelta(hours=6), "0 */6 * * *", {}),
        pytest.param(
            partitioned("@daily", timezone="UTC", run_offset=-1, key_format="%Y-%m-%d"), "@hourly", {},
            marks=since(3, 2),
        ),
        ("@daily", Cadence("@daily", since=datetime(2025, 1, 1, tzinfo=UTC), before=Cadence("@hourly")), {}),
        (None, "@hourly", {}),
        ([asset_of(A)], "@hourly", {}),
        ("@once", "@hourly", {}),
        (CronTriggerTimetable("@hourly", timezone="Europe/Berlin"), Cadence("@hourly", "Europe/Berlin"), {}),
        (CronTriggerTimetable("0 */2 * * *", timezone="UTC"), "0 */2 * * *", {}),
        (CronTriggerTimetable("0 6,18 * * *", timezone="Europe/Berlin"), Cadence("0 6,18 * * *", "Europe/Berlin"), {}),
        (MultipleCronTriggerTimetable("0 6 * * *", "0 18 * * *", timezone="UTC"), "0 6,18 * * *", {}),
    ],
)  # fmt: skip
def test_a_schedule_that_fits_is_taken(schedule: Any, cadence: Any, options: dict[str, Any]) -> None:
    scheduled(schedule, cadence, **options)


@pytest.mark.parametrize(
    "expression", ["0 */2 * * *", "30 */3 * * *", "0 0-23 * * *", "0 1,2,3 * * *", "30 1,13 * * *"]
)
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "America/St_Johns"])
def test_runs_beside_a_clock_change_are_those_of_airflow(expression: str, zone: str) -> None:
    """R38."""
    for month, day in ((3, 9), (3, 30), (10, 26), (11, 2)):
        moment = pendulum.datetime(2024, month, day, 12)
        timetable = AirflowsTimetable(expression, timezone=zone)
        for run in islice(by_cron([Cadence(expression, zone)], moment, timedelta(), None), 40):
            moment = timetable._get_next(moment)
            assert run.date == moment


def test_a_task_that_gets_its_dag_later_is_refused_before_any_work() -> None:
    task = submit(job=Job("job", outputs=[C], cadence="@hourly"))
    task.dag = DAG("dag", schedule="@daily", start_date=datetime(2013, 1, 1, tzinfo=UTC))
    with pytest.raises(AirflowFailException, match="misses 23"):
        task.execute(task_context())


def test_retries_are_one_wish_and_a_clearing_is_another() -> None:
    first, retried = task_owner(task_context()), task_owner(task_context(try_number=2))
    cleared = task_owner(task_context(cleared_after=2, try_number=3))
    assert first.same_generation(retried)
    assert not first.same_generation(cleared)
    assert first.order < retried.order < cleared.order


def test_retries_that_an_author_lowers_are_no_clearing() -> None:
    context = task_context(try_number=2)
    context["ti"].task.retries = 0
    assert task_owner(context).same_generation(task_owner(task_context()))


@pytest.mark.parametrize("retries", [1, 2, 3])
def test_a_clearing_is_none_the_less_if_an_author_raises_retries_before_it_runs(retries: int) -> None:
    """R10: Airflow writes max_tries at the clearing, by the retries of then; a task knows those of now."""
    first, context = task_context(retries=0), task_context(cleared_after=1, retries=0, try_number=2)
    context["ti"].task.retries = retries
    cleared = task_owner(context)
    assert not task_owner(first).same_generation(cleared)
    assert cleared.clears(task_owner(first))
    retried = task_context(retries=0, try_number=2)
    retried["ti"].task.retries = retries
    assert task_owner(retried).same_generation(task_owner(first))
    retried["dag_run"].clear_number = 1
    assert task_owner(retried).same_generation(task_owner(first)), "another task of the run was cleared"


def test_another_run_is_another_owner() -> None:
    assert not task_owner(task_context()).same_run(task_owner(task_context(run_id="manual")))


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (Fenced("x"), AirflowFailException),
        (DependentReaders("x", readers=(), interval=Interval(NOON, DAY_END)), AirflowFailException),
        (LeaseExpired("x"), LeaseExpired),
        (StoreReplaced("x", begun_in="a", incarnation="b"), StoreReplaced),
        (NotReady("x", missing=()), NotReady),
        (EpochBusy("x"), EpochBusy),
        (StoreUnavailable("x"), StoreUnavailable),
        (OutcomeUnknown("x"), OutcomeUnknown),
        (RuntimeError("x"), RuntimeError),
    ],
)
def test_only_final_errors_end_the_retries(error: Exception, raised: type[Exception]) -> None:
    with pytest.raises(raised), final_errors_end_retries():
        raise error


# --- links ---------------------------------------------------------------------------------------------------


def test_link_names_only_the_epochs_of_the_task() -> None:
    operator = submit(job=JOB)
    operator.grid_query = {"domain": "default", "job": "a b&c", "from": "2013-02-07T00:00:00+00:00", "to": ""}
    link = EpochGridLink().get_link(operator, ti_key=None)  # type: ignore[arg-type]
    assert link.endswith("/plugin/epochs?domain=default&job=a+b%26c&from=2013-02-07T00%3A00%3A00%2B00%3A00")
    assert grid_link({}).endswith("/plugin/epochs")


# --- triggers ------------------------------------------------------------------------------------------------


def trigger(**options: Any) -> EpochTrigger:
    return EpochTrigger(domain="default", tables=["a"], barrier="2013-02-08T00:00:00+00:00", **options)


def test_a_trigger_keeps_plain_values_only() -> None:
    path, kwargs = trigger(epochs_conn_id="mine").serialize()
    assert path == "airflow_provider.triggers.epochs.EpochTrigger"
    assert kwargs == {
        "epochs_conn_id": "mine",
        "domain": "default",
        "tables": ["a"],
        "barrier": "2013-02-08T00:00:00+00:00",
        "poll_interval": 5.0,
        "edges": [],
        "start": None,
        "job": None,
        "run": [],
        "until": None,
    }
    assert json.loads(json.dumps(kwargs)) == kwargs
    assert EpochTrigger(**kwargs).serialize() == (path, kwargs)


def test_waiting_holds_no_worker_where_airflow_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sensor(tables=[A]).deferrable
    assert computed(job=JOB).deferrable
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "False")
    assert not sensor(tables=[A]).deferrable
    assert not submit(job=JOB).deferrable
    assert submit(job=JOB, deferrable=True).deferrable


def test_a_trigger_of_a_later_version_is_understood() -> None:
    _, kwargs = trigger(level="read_committed", timeout=5).serialize()
    assert kwargs == trigger().serialize()[1]


def test_a_trigger_of_this_version_needs_no_more_than_the_first_had() -> None:
    assert trigger().serialize()[1]["epochs_conn_id"] == "epochs_default"


@pytest.mark.parametrize(
    "name", ["nightly", "team.orders-v2_1", "umsätze", "ada@laptop", "skip by ada", "a/b", ""]
)
def test_an_owner_names_a_dag_where_airflow_allows_it(name: str) -> None:
    try:
        DAG(dag_id=name)
    except (AirflowException, ValueError):
        allowed = False
    else:
        allowed = True
    assert Owner(dag_id=name, run_id="1").names_dag is allowed
