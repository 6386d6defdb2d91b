"""Everything that the demo runs on, in one home: landing zone, store, Spark, Airflow, and where tables and logs are."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from demo import books, faults, landing
from demo.airflow_cluster import AirflowCluster
from demo.books import BookTotals
from demo.connection import CONN_ID, environment_of
from demo.faults import Aim, FaultInjector
from demo.processes import ManagedProcess, end_owned_by, owned_by
from demo.source import Days
from demo.spark_connect import SparkConnectServer, write_configuration
from demo.stores import STORES, ServerStore, SqliteStore
from demo.totals import SourceTotals
from demo.warehouses import WAREHOUSES, LocalWarehouse

CHECKOUT = Path(__file__).resolve().parent.parent
PLAN = "plan.json"


class StillRunningError(RuntimeError):
    """Another demo has the same home.

    :param home: the home.
    :param pids: of its processes; none while it has not started any, or has ended them.
    """

    def __init__(self, *, home: Path, pids: list[int]) -> None:
        self.home = home
        self.pids = pids
        super().__init__(
            f"an earlier demo still runs in {home} (pids {pids}); type `make down` first"
            if pids
            else f"another demo starts or ends in {home}; wait for it, or press Ctrl-C there"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a demo computes and where it listens.

    :param days: number of days that the pipeline with the package computes.
    :param twin_days: number of days that the naive twin computes; 0 for a demo without it.
    :param port: of Airflow's API server and UI.
    :param connect_port: of the Spark Connect server.
    :param store: where the metadata are, a name of :data:`demo.stores.STORES`.
    :param warehouse: where the tables are, a name of :data:`demo.warehouses.WAREHOUSES`.
    """

    days: int = 8
    twin_days: int = 2
    port: int = 8080
    connect_port: int = 15002
    store: str = SqliteStore.name
    warehouse: str = LocalWarehouse.name

    @property
    def epochs(self) -> Days:
        """The days of the pipeline with the package."""
        return Days.through_blizzard(self.days)

    @property
    def books(self) -> Days:
        """The day on which the books land that are computed."""
        return Days(first=self.epochs.first, count=1)

    @property
    def twin(self) -> Days | None:
        """The days of the naive twin, if it runs."""
        return Days.through_blizzard(self.twin_days) if self.twin_days else None

    @property
    def corrected(self) -> tuple[date, ...]:
        """The days that are corrected at the source later: two in the middle of a week, or those that there are."""
        return tuple(self.epochs)[-5:][:2] if self.days > 1 else ()

    @property
    def twin_corrected(self) -> tuple[date, ...]:
        """The same for the twin: two of its days, if it has several."""
        return tuple(self.twin)[:2] if self.twin and self.twin.count > 1 else ()

    def save(self, home: Path) -> None:
        """Keep it in a home, so that ``make up`` starts the same again."""
        (home / PLAN).write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, home: Path) -> Plan:
        """Take the plan that a home was made with, or the default one."""
        path = home / PLAN
        return cls(**json.loads(path.read_text())) if path.exists() else cls()


class DemoStack:
    """The parts that a demo starts and stops.

    :param home: folder that holds all of it; nothing is written anywhere else.
    :param plan: days and ports.
    """

    def __init__(self, *, home: Path, plan: Plan) -> None:
        self.home = home.resolve()
        self.plan = plan
        self.warehouse = WAREHOUSES[plan.warehouse](home=self.home)
        self.store = STORES[plan.store](home=self.home, warehouse=self.warehouse.uri)
        self.faults: FaultInjector | None = None
        self.reads = self.home / "reads"
        self.airflow = AirflowCluster(
            home=self.home,
            dags=CHECKOUT / "dags",
            port=plan.port,
            environment=self._environment(),
            python_path=[CHECKOUT],
        )
        self.spark = SparkConnectServer(
            home=self.home, port=plan.connect_port, environment=self.airflow.environment
        )

    @contextmanager
    def claimed(self) -> Iterator[list[int]]:
        """Have the home and the ports for this demo alone; refuse what is in the way before anything is written.

        :returns: the files and sockets that hold them: a process that inherits these holds the claim too.
        :raises StillRunningError: another demo has the home.
        :raises FileExistsError: the home, which gets emptied, holds what no demo wrote.
        :raises MissingProgramError: what store or warehouse need is not installed.
        :raises PortInUseError: naming the port and who holds it.
        """
        with ExitStack() as held:
            home = held.enter_context(self._home_for_this_demo_alone())
            self.store.require()
            self.warehouse.require()
            ports = [held.enter_context(server.endpoint.hold()) for server in (self.airflow, self.spark)]
            yield [home, *(port.fileno() for port in ports)]

    @contextmanager
    def _home_for_this_demo_alone(self) -> Iterator[int]:
        """Lock the home, made when it is absent; leave none behind that is empty."""
        if running := owned_by(self.home):
            raise StillRunningError(home=self.home, pids=[process.pid for process in running])
        self.home.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.home, os.O_RDONLY)
        try:
            self._lock(folder)
            if any(self.home.iterdir()) and not (self.home / PLAN).exists():
                raise FileExistsError(f"{self.home} holds files that no demo wrote; choose another --home")
            try:
                yield folder
            finally:
                with suppress(OSError):
                    self.home.rmdir()
        finally:
            os.close(folder)

    def _lock(self, folder: int) -> None:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StillRunningError(home=self.home, pids=[]) from error

    def clear(self) -> None:
        """Make the home empty but for the plan: a demo starts from nothing. The home itself stays, it is locked."""
        self.plan.save(self.home)
        for path in self.home.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != PLAN:
                path.unlink()
        self.reads.mkdir()

    def land(self) -> int:
        """Write the files that land, and the totals that readers compare with.

        :returns: the number of files.
        """
        for days, name, corrected in (
            (self.plan.epochs, "epochs", self.plan.corrected),
            (self.plan.twin, "twin", self.plan.twin_corrected),
        ):
            if days is not None:
                SourceTotals.of(days).save(self._totals(name))
                SourceTotals.of(days, corrected=corrected).save(self._totals(f"{name}-corrected"))
        BookTotals.of(self.plan.books).save(self._totals("words"))
        return landing.land(self._zone, self._landed) + books.land(self._zone, self.plan.books)

    def correct(self, days: Collection[date]) -> None:
        """Correct the flights of some days at the source, in place."""
        landing.replace(self._zone, self._landed, days, corrected=True)

    def take_back(self, days: Collection[date]) -> None:
        """Write the flights of some days again as they landed first."""
        landing.replace(self._zone, self._landed, days, corrected=False)

    @property
    def _zone(self) -> Path:
        return self.home / "landing"

    @property
    def _landed(self) -> Days:
        return Days.through_blizzard(max(self.plan.days, self.plan.twin_days))

    def start(self) -> None:
        """Start warehouse, store, Spark and Airflow and wait until all are ready.

        :raises ProcessFailedError: when a part does not get ready.
        :raises ServerFailedError: when the store's server does not start.
        """
        write_configuration(self.home / "spark", self.warehouse.spark_settings)
        self.spark.start()
        self.warehouse.start()
        self.store.start()
        self.airflow.migrate()
        self.airflow.start()
        self.spark.wait_until_ready()
        self.airflow.wait_until_healthy()

    def stop(self) -> None:
        """Stop everything, and whatever carries this home's mark."""
        if self.faults is not None:
            self.faults.stop()
        self.airflow.stop()
        self.spark.stop()
        self.store.stop()
        self.warehouse.stop()
        end_owned_by(self.home)

    def check(self) -> None:
        """Say so when a part has ended.

        :raises ProcessFailedError: naming it.
        """
        self.airflow.check()
        self.spark.process.check()
        self.store.check()
        self.warehouse.check()
        if self.faults is not None:
            self.faults.check()

    def start_faults(self, aim: Aim, say: Callable[[str], None]) -> None:
        """Break the store's server from now on, as *aim* says.

        :param say: told of each strike.
        """
        if not isinstance(self.store, ServerStore):
            raise TypeError(f"{self.store.name} has no server that could be broken")
        self.faults = FaultInjector(store=self.store, aim=aim, log=self.home / faults.LOG, say=say)
        self.faults.start()

    def reader(self, kind: str, name: str, *, period_s: float) -> ManagedProcess:
        """Prepare a reader's process.

        :param kind: a family of :mod:`demo.readers`.
        :param name: its name among the readers of its family.
        :param period_s: seconds from one read's start to the next's.
        """
        arguments = ["-m", "demo.readers", kind, "--reader", name, "--period", str(period_s)]
        return ManagedProcess(
            name=f"reader-{kind}-{name}",
            command=[sys.executable, *arguments],
            environment=self.airflow.environment,
            home=self.home,
        )

    def _totals(self, family: str) -> Path:
        return self.home / f"totals-{family}.json"

    def _environment(self) -> Mapping[str, str]:
        """What DAGs, jobs and readers are told."""
        twin = self.plan.twin
        about_twin = (
            {"NYC_TWIN_ORIGIN": twin.start.isoformat(), "NYC_TWIN_DAYS": str(twin.count)} if twin else {}
        )
        return {
            **about_twin,
            "SPARK_CONF_DIR": str(self.home / "spark"),
            "NYC_ORIGIN": self.plan.epochs.start.isoformat(),
            "NYC_DAYS": str(self.plan.days),
            "NYC_TOTALS_EPOCHS": str(self._totals("epochs")),
            "NYC_TOTALS_TWIN": str(self._totals("twin")),
            "NYC_TOTALS_EPOCHS_CORRECTED": str(self._totals("epochs-corrected")),
            "NYC_TOTALS_TWIN_CORRECTED": str(self._totals("twin-corrected")),
            "NYC_TOTALS_WORDS": str(self._totals("words")),
            "NYC_READS": str(self.reads),
            "NYC_CATALOG": f"http://127.0.0.1:{self.plan.port}/epochs/catalog/{CONN_ID}",
            "AIRFLOW_VAR_NYC_LANDING": str(self._zone),
            "AIRFLOW_VAR_NYC_TWIN_WAREHOUSE": self.warehouse.twin,
            "NYC_LANDING": str(self._zone),
            "NYC_TWIN_WAREHOUSE": self.warehouse.twin,
            **self.warehouse.environment,
            **environment_of(self.store.connections),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "AIRFLOW_CONN_SPARK_CONNECT": json.dumps(
                {"conn_type": "spark_connect", "host": "sc://127.0.0.1", "port": self.plan.connect_port}
            ),
        }
