"""The services of ``docker-compose.yml`` with the warehouse on S3, as the file has it: an emulator is the S3 server.

Once with the metadata in PostgreSQL, and once, with ``deploy/zookeeper.yml``, in an ensemble of ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.aws import S3Emulator
from tests.servers.postgresql import binaries
from tests.servers.zookeeper import ZookeeperEnsemble
from tests.services.compose import ROOT
from tests.services.native import NativeDeployment
from tests.services.zookeeper import zookeeper_directory, zookeeper_ensemble
from tests.system.test_deployment import check_cluster, check_tables, run_pipeline

__all__ = ["zookeeper_directory", "zookeeper_ensemble"]  # fixtures of this module


@pytest.fixture(scope="module")
def bucket(s3: S3Emulator) -> str:
    """The one that the compose file's S3 server makes."""
    s3.make_bucket("warehouse")
    return "warehouse"


@pytest.fixture(params=["postgresql", "zookeeper"])
def deployment(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    s3: S3Emulator,
    bucket: str,
) -> Iterator[NativeDeployment]:
    programs = binaries()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed: apt-get install postgresql")
    ports = {("s3", 8333): s3.port}
    files = []
    if request.param == "zookeeper":
        ensemble: ZookeeperEnsemble = request.getfixturevalue("zookeeper_ensemble")
        hosts = ensemble.hosts.split(",")
        ports |= {(f"zk{index}", 2181): int(host.rpartition(":")[2]) for index, host in enumerate(hosts, 1)}
        files.append(ROOT / "deploy" / "zookeeper.yml")
    home = tmp_path_factory.mktemp("deployment")
    found = NativeDeployment(
        home=home,
        programs=programs,
        warehouse=f"s3://{bucket}/{request.param}",
        ports=ports,
        files=files,
    )
    try:
        found.start()
        yield found
    finally:
        found.stop()


def test_executors_write_and_read_tables_on_s3(
    deployment: NativeDeployment, s3: S3Emulator, bucket: str
) -> None:
    run_pipeline(deployment)
    check_tables(deployment)
    check_cluster(deployment)
    written = s3.keys(bucket)
    for table in ("flights", "carrier_daily", "route_daily"):
        assert any(f"/nyc/{table}/data/" in key and key.endswith(".parquet") for key in written), written
