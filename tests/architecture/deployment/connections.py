"""Whether every Airflow connection leads to a server of the file, with a login that somebody makes there."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from airflow_provider.domain.errors import EpochError
from airflow_provider.hooks.connection import CONN_TYPE, ConnectionFields, Place, catalog_url_of, place_of
from airflow_provider.stores.sql.postgresql import address as postgresql_address
from airflow_provider.stores.zookeeper import address as zookeeper_address
from tests.architecture.deployment.commands import airflow_arguments
from tests.architecture.deployment.logins import Logins, login_problems
from tests.architecture.deployment.model import (
    COMPONENTS,
    MIGRATES,
    SEAWEEDFS,
    UPGRADES,
    ZOOKEEPER,
    Deployment,
    Finding,
    Findings,
    Service,
    ensemble,
    protocols,
)
from tests.architecture.deployment.settings import CONNECTION
from tests.services.compose import ROOT

DATABASES = ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC")
_SPARK = {"spark": "spark", "spark_connect": "sc"}
"""Connection types of Airflow's Spark provider, and what the servers speak that they lead to."""


def connection_problems(deployment: Deployment) -> Findings:
    for service in deployment.airflow:
        yield from _database_problems(service, deployment)
        for variable in service.environment:
            if variable.startswith(CONNECTION):
                for problem in _problems_of(service, variable, deployment):
                    yield Finding(service.name, variable, problem)
        if service.role in COMPONENTS:
            for conn_id, conn_type in sorted(used_connections().items()):
                fields = _fields(service, conn_id)
                if fields is None:
                    yield Finding(
                        service.name, variable_of(conn_id), f"no {variable_of(conn_id)}; DAGs use it"
                    )
                elif fields.conn_type != conn_type:
                    problem = f"is of type {fields.conn_type}, and {conn_type} is used"
                    yield Finding(service.name, variable_of(conn_id), problem)
        yield from _named(service)
    yield from _schema_problems(deployment)


def variable_of(conn_id: str) -> str:
    return f"{CONNECTION}{conn_id.upper()}"


@cache
def used_connections() -> dict[str, str]:
    """The connections that operators use when none is named, and that DAGs name; with their types."""
    from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    from airflow_provider.hooks.epochs import EpochsHook

    used = {hook.default_conn_name: hook.conn_type for hook in (EpochsHook, SparkSubmitHook)}
    types = {"spark_conn_id": SparkConnectHook.conn_type, "epochs_conn_id": CONN_TYPE}
    for path in (ROOT / "dags").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg in types and isinstance(node.value, ast.Constant):
                used[str(node.value.value)] = types[node.arg]
    return used


def _fields(service: Service, conn_id: str) -> ConnectionFields | None:
    text = service.environment.get(variable_of(conn_id))
    return None if text is None else ConnectionFields(conn_id=conn_id, **json.loads(text))


# --- one connection ------------------------------------------------------------------------------------------


def _problems_of(service: Service, variable: str, deployment: Deployment) -> Iterator[str]:
    try:
        fields = _fields(service, variable.removeprefix(CONNECTION).lower())
        assert fields is not None
        if fields.conn_type == CONN_TYPE:
            yield from _epochs_problems(service, fields, deployment)
        elif fields.conn_type in _SPARK:
            yield from _spark_problems(fields, deployment)
        else:
            yield f"is of type {fields.conn_type}"
    except (EpochError, ValueError, TypeError) as error:
        yield str(error)


def _spark_problems(fields: ConnectionFields, deployment: Deployment) -> Iterator[str]:
    url = urlsplit(f"{fields.host}:{fields.port}")
    server = deployment.services.get(url.hostname or "")
    if server is None:
        yield f"{url.geturl()} leads to no server of the file"
    elif url.scheme != _SPARK[str(fields.conn_type)]:
        yield f"{url.geturl()} is no address of a {fields.conn_type} server"
    elif protocols(server).get(url.port or 0) != url.scheme:
        yield f"{server.name} does not listen on {url.port} for {url.scheme}"


def _epochs_problems(service: Service, fields: ConnectionFields, deployment: Deployment) -> Iterator[str]:
    if "warehouse" not in fields.extra:
        yield from _store_problems(catalog_url_of(fields), deployment)
        return
    place = place_of(fields)
    yield from _store_problems(place.store_url, deployment)
    warehouse = urlsplit(place.warehouse)
    buckets = [word for one in deployment.of_image(SEAWEEDFS) for word in one.command]
    if warehouse.scheme == "s3" and f"-bucket={warehouse.netloc}" not in buckets:
        yield f"s3 does not make the bucket of {place.warehouse}"
    if place.catalog is not None:
        catalog = _fields(service, place.catalog)
        if catalog is None:
            yield f"there is no connection {place.catalog}"
        else:
            catalog_url_of(catalog)


def _store_problems(url: str, deployment: Deployment) -> Iterator[str]:
    """Hold a store's URL, read by the store's own parser, against the servers of the file."""
    if url.startswith("zookeeper:"):
        yield from _ensemble_problems(zookeeper_address.parsed(url), deployment)
        return
    address = postgresql_address.parsed(url)
    yield from login_problems(
        deployment,
        host=address.host,
        port=address.port,
        role=address.user,
        password=address.password,
        database=address.database,
    )
    if address.sslmode not in {"disable", "allow", "prefer"}:
        yield f"sslmode is {address.sslmode}, and the server has no certificate"


def _ensemble_problems(address: zookeeper_address.Address, deployment: Deployment) -> Iterator[str]:
    theirs = {
        f"{server.name}:{port}"
        for server in deployment.of_image(ZOOKEEPER)
        for port, protocol in protocols(server).items()
        if protocol == "zookeeper"
    }
    if set(address.hosts) != theirs:
        yield f"hosts are {sorted(address.hosts)}, the ensemble is {sorted(theirs)}"
    if address.tls != "off" or address.auth != "digest":
        yield f"tls is {address.tls} and auth {address.auth}; the servers have neither certificates nor SASL"


def _database_problems(service: Service, deployment: Deployment) -> Findings:
    """Airflow's own database is on a server, with a driver that is installed."""
    for variable in DATABASES:
        text = service.environment.get(variable, "")
        try:
            url = make_url(text)
            url.get_dialect().import_dbapi()
        except (SQLAlchemyError, ImportError, ValueError) as error:
            yield Finding(service.name, variable, f"is no database: {type(error).__name__}")
            continue
        found = login_problems(
            deployment,
            host=url.host or "",
            port=url.port or 5432,
            role=url.username or "",
            password=str(url.password or ""),
            database=url.database or "",
        )
        yield from (Finding(service.name, variable, problem) for problem in found)


def _named(service: Service) -> Findings:
    """The connections that commands name are there."""
    for setting, words in (("command", service.command), ("healthcheck.test", service.health)):
        given = airflow_arguments(words[1:]) if words[:1] == ["airflow"] else None
        conn_id = getattr(given, "conn_id", None)
        if conn_id is not None and _fields(service, conn_id) is None:
            yield Finding(service.name, setting, f"there is no connection {conn_id}")


# --- who makes the schemas -----------------------------------------------------------------------------------


def _schema_problems(deployment: Deployment) -> Findings:
    """Somebody upgrades the database and the store that is used, with a login that may; who uses it may not."""
    databases = {one.environment.get(DATABASES[0]) for one in deployment.with_role(MIGRATES)}
    upgraders = [(one, found) for one in deployment.with_role(UPGRADES) if (found := _upgraded(one))]
    for service in deployment.airflow:
        if service.role not in COMPONENTS:
            continue
        if service.environment.get(DATABASES[0]) not in databases:
            yield Finding(service.name, DATABASES[0], "no service migrates this database")
        place = _place(service, next(iter(used_connections())))
        if place is None:
            continue
        makers = [one for one, made in upgraders if _where(made) == _where(place)]
        if not makers:
            variable = variable_of(next(iter(used_connections())))
            yield Finding(service.name, variable, "no service upgrades the schema of this store")
    for service, place in upgraders:
        for problem in _rights(service, place, deployment):
            yield Finding(service.name, "command", problem)


def _upgraded(service: Service) -> Place | None:
    given = airflow_arguments(service.command[1:])
    conn_id = getattr(given, "conn_id", None) or next(iter(used_connections()))
    return _place(service, conn_id)


def _place(service: Service, conn_id: str) -> Place | None:
    try:
        fields = _fields(service, conn_id)
        return None if fields is None else place_of(fields)
    except (EpochError, ValueError, TypeError):
        return None


def _address(place: Place) -> Any:
    parse = zookeeper_address if place.store_url.startswith("zookeeper:") else postgresql_address
    return parse.parsed(place.store_url)


def _where(place: Place) -> tuple[str, str]:
    return _address(place).location, place.warehouse


def _rights(service: Service, place: Place, deployment: Deployment) -> Iterator[str]:
    address = _address(place)
    tasks = {_address(found).user for one in deployment.airflow if (found := _place(one, "epochs_default"))}
    if isinstance(address, zookeeper_address.Address):
        if tasks != {address.user}:
            yield f"nodes would belong to {address.user}, and tasks are {sorted(tasks)}"
        return
    server = deployment.services.get(address.host)
    owner = Logins.of(server).owners.get(address.database) if server else None
    if address.user != owner:
        yield f"{service.name} upgrades as {address.user}, and the database belongs to {owner}"
    if owner in tasks:
        yield f"tasks log in as {owner}, who owns the database"


def ensemble_problems(deployment: Deployment) -> Findings:
    """Every ZooKeeper server has an id of its own, one list for all, and in it its own name at its id."""
    servers = deployment.of_image(ZOOKEEPER)
    ids = [server.environment.get("ZOO_MY_ID", "") for server in servers]
    for server in servers:
        mine, listed = server.environment.get("ZOO_MY_ID", ""), ensemble(server)
        if ids.count(mine) > 1 or not mine.isdecimal() or not 1 <= int(mine) <= 255:
            yield Finding(
                server.name, "ZOO_MY_ID", f"{mine!r} is not an id of 1 to 255 of its own; all are {ids}"
            )
        given = server.environment.get("ZOO_SERVERS", "").split()
        if len(given) != len(listed):
            yield Finding(server.name, "ZOO_SERVERS", f"{given} are not servers of different ids")
        for number, (host, *ports) in listed.items():
            if len(set(ports)) != len(ports):
                problem = f"server {number}, {host}, is to listen twice on one port: {ports}"
                yield Finding(server.name, "ZOO_SERVERS", problem)
        if mine not in listed or listed[mine][0] != server.name:
            yield Finding(server.name, "ZOO_SERVERS", f"{server.name} is not in it with its id {mine}")
        if set(listed) != set(ids) or listed != ensemble(servers[0]):
            problem = (
                f"has the ids {sorted(listed)}, the file's servers are {sorted(ids)}, each with the same list"
            )
            yield Finding(server.name, "ZOO_SERVERS", problem)
