"""Who may log in to the servers of the file, as the scripts make it that PostgreSQL runs at its first start."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.architecture.deployment.model import (
    POSTGRES,
    Deployment,
    Finding,
    Findings,
    Service,
    option,
    protocols,
)
from tests.architecture.deployment.settings import start_scripts


@dataclass(frozen=True, slots=True)
class Logins:
    """Roles and databases of one PostgreSQL server.

    :param passwords: by role. :param owners: of databases. :param guests: role and database, of those let in.
    """

    passwords: dict[str, str] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    guests: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(cls, server: Service) -> Logins:
        """Read the scripts of *server*, with its own variables."""
        text = "\n".join(start_scripts(server))
        given = dict(re.findall(r"^\\getenv (\w+) (\w+)$", text, re.MULTILINE))
        roles = re.findall(r"CREATE ROLE (\w+) LOGIN PASSWORD :'(\w+)'", text)
        return cls(
            passwords={role: server.environment.get(given.get(name, ""), "") for role, name in roles},
            owners=dict(re.findall(r"CREATE DATABASE (\w+) OWNER (\w+)", text)),
            guests=frozenset(
                (role, database)
                for databases, role in re.findall(r"GRANT CONNECT ON DATABASE ([\w, ]+) TO (\w+)", text)
                for database in databases.split(", ")
            ),
        )

    def refuse(self, role: str, database: str) -> Iterator[str]:
        """Why *role* does not come into *database*."""
        if role not in self.passwords:
            yield f"nobody makes the role {role!r}; there are {sorted(self.passwords)}"
        if database not in self.owners:
            yield f"nobody makes the database {database!r}; there are {sorted(self.owners)}"
        elif role in self.passwords and self.owners[database] != role and (role, database) not in self.guests:
            yield f"{role} may not connect to the database {database}"


def login_problems(
    deployment: Deployment, *, host: str, port: int, role: str, password: str, database: str
) -> Iterator[str]:
    """Why *role* does not come into *database* on the server at *host*."""
    server = deployment.services.get(host)
    if server is None or protocols(server).get(port) != "postgresql":
        yield f"{host}:{port} is no PostgreSQL server of the file"
        return
    logins = Logins.of(server)
    yield from logins.refuse(role, database)
    if logins.passwords.get(role, password) != password:
        yield f"the password is not the one that {server.name} gives to {role}"


def readiness_problems(deployment: Deployment) -> Findings:
    """A server is healthy when a role of the scripts can come into a database of the scripts, not before.

    What the image itself makes before its scripts run must not be what they make.
    """
    for server in deployment.of_image(POSTGRES):
        logins = Logins.of(server)
        for variable, made in (("POSTGRES_USER", logins.passwords), ("POSTGRES_DB", logins.owners)):
            if server.environment.get(variable) in made:
                yield Finding(server.name, variable, f"{server.environment[variable]} would be made twice")
        if server.health[:1] != ["pg_isready"]:
            continue
        words = [part for word in server.health for part in word.split("=", 1)]
        role, database = option(words, "--username", "-U"), option(words, "--dbname", "-d")
        for problem in logins.refuse(role, database):
            yield Finding(server.name, "healthcheck.test", problem)
