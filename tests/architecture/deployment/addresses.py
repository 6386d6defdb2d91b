"""Whether every host and port that a service names is one of the file's, and speaks what it is spoken to in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.architecture.deployment.model import Deployment, Finding, Findings, Service, option, protocols
from tests.services import compose

_ADDRESS = re.compile(
    r"(?:(?P<scheme>[a-z][a-z+]*)://(?:[^@/\s\"]*@)?)?"
    r"(?<![\w.-])(?P<host>[a-z][a-z0-9-]*)(?::|', |\", \"port\": )(?P<port>\d{2,5})\b"
)
_SPEAKS = {"postgresql+psycopg": "postgresql", "https": "http"}
_ADDRESSING = ("environment", "command", "healthcheck")


@dataclass(frozen=True, slots=True)
class Address:
    """A host and port in a service's settings. :param scheme: empty when none is named."""

    setting: str
    host: str
    port: int
    scheme: str


def addresses(service: Service) -> Iterator[Address]:
    """Everything in *service* that is a host and a port."""
    for path, text in compose.texts({key: service.given[key] for key in _ADDRESSING if key in service.given}):
        for found in _ADDRESS.finditer(text):
            setting = path.removeprefix("environment.")
            yield Address(setting, found["host"], int(found["port"]), found["scheme"] or "")


def address_problems(deployment: Deployment) -> Findings:
    published: dict[int, str] = {}
    for service in deployment.services.values():
        if _bound_to(service) not in {"", "0.0.0.0", service.name}:  # noqa: S104 - the container's own network
            problem = f"it listens as {_bound_to(service)}, and others reach it as {service.name}"
            yield Finding(service.name, "command", problem)
        for address in addresses(service):
            yield from (
                Finding(service.name, address.setting, one) for one in _wrong(service, address, deployment)
            )
        for mapping in service.given.get("ports", []):
            host, _, inside = str(mapping).rpartition(":")
            if not host.startswith("127.0.0.1:"):
                yield Finding(service.name, "ports", f"{mapping} is open to the network")
            if not inside.isdecimal() or int(inside) not in protocols(service):
                yield Finding(service.name, "ports", f"{mapping}: it does not listen on {inside}")
            outside = int(host.rpartition(":")[2] or 0)
            if published.setdefault(outside, service.name) != service.name:
                yield Finding(service.name, "ports", f"{outside} of the host is {published[outside]}'s")


def _bound_to(service: Service) -> str:
    """The address that *service* is told to listen on, empty for all."""
    settings = [word.partition("=") for word in service.command]
    named = [value for name, _, value in settings if name.endswith("binding.address")]
    return named[0] if named else option(service.command, "--host")


def _wrong(service: Service, address: Address, deployment: Deployment) -> Iterator[str]:
    host, port = address.host, address.port
    if host == "localhost" and address.setting.endswith("BASE_URL"):
        if not any(
            f"127.0.0.1:{port}:" in str(one.given.get("ports")) for one in deployment.services.values()
        ):
            yield f"nothing is published on {port}, where Airflow says that its UI is"
        return
    target = service if host == "localhost" else deployment.services.get(host)
    if target is None:
        yield f"there is no service {host}"
    elif port not in protocols(target):
        yield f"{host} does not listen on {port}"
    elif address.scheme and protocols(target)[port] != _SPEAKS.get(address.scheme, address.scheme):
        yield f"{host} speaks {protocols(target)[port]} on {port}, and not {address.scheme}"
