"""Who may read and change a ZooKeeper store, and how the way to it is encrypted."""

from __future__ import annotations

import gc
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl_credential

from airflow_provider.domain.errors import InvalidInput, StoreIncompatible, StoreUnavailable
from airflow_provider.domain.identifiers import DomainName
from airflow_provider.domain.records import Kind
from airflow_provider.stores.factory import check_schema, open_store, upgrade_schema
from airflow_provider.stores.schema_status import Fit
from airflow_provider.stores.zookeeper.address import parsed
from airflow_provider.stores.zookeeper.store import ZookeeperStore
from airflow_provider.testing.store_cases.backend import commit, counter_key, put, write
from tests.servers.ports import free_port
from tests.servers.zookeeper import ZookeeperServer

DOMAIN = DomainName("d")
ODD = "p:w@d/ %"
QUOTED = "p%3Aw%40d%2F%20%25"
USER, PASSWORD = "epochs", "correct-horse"
JAAS = f"""Server {{
    org.apache.zookeeper.server.auth.DigestLoginModule required user_{USER}="{PASSWORD}";
}};
"""


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a server that it vouches for by name, and a client."""
    folder = tmp_path_factory.mktemp("certificates")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl(
        "req", "-x509", *curve, "-days", "2", "-subj", "/CN=authority",
        "-keyout", f"{folder}/ca.key", "-out", f"{folder}/ca.pem",
    )  # fmt: skip
    for name in ("server", "client"):
        openssl(
            "req", "-x509", *curve, "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost",
            "-addext", "basicConstraints=critical,CA:FALSE",
            "-CA", f"{folder}/ca.pem", "-CAkey", f"{folder}/ca.key",
            "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.crt",
        )  # fmt: skip
        both = (folder / f"{name}.key").read_text() + (folder / f"{name}.crt").read_text()
        (folder / f"{name}.pem").write_text(both)
    return folder


@pytest.fixture(scope="module")
def secured(zookeeper_directory: Path, certificates: Path) -> Iterator[tuple[ZookeeperServer, int]]:
    """A server with SASL, and a port with TLS that wants to know its clients."""
    directory = zookeeper_directory / "secured"
    directory.mkdir()
    (directory / "jaas.conf").write_text(JAAS)
    secure_port = free_port()
    settings = {
        "secureClientPort": str(secure_port),
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": f"{certificates}/server.pem",
        "ssl.trustStore.location": f"{certificates}/ca.pem",
        "ssl.clientAuth": "need",
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    }
    java = [f"-Djava.security.auth.login.config={directory / 'jaas.conf'}"]
    with ZookeeperServer(directory=directory, settings=settings, java=java) as server:
        yield server, secure_port


def acls_of(hosts: str, chroot: str, identity: tuple[str, str] | None) -> set[str]:
    """The permissions of every node below *chroot*, as a client with *identity* sees them."""
    client = KazooClient(hosts=hosts, auth_data=[identity] if identity else None)
    client.start()
    found, left = set(), [chroot]
    try:
        while left:
            path = left.pop()
            acls, _ = client.get_acls(path)
            found |= {f"{acl.id.scheme}:{acl.perms}" for acl in acls}
            left += [f"{path}/{name}" for name in client.get_children(path)]
    finally:
        client.stop()
        client.close()
    return found


def use(url: str) -> None:
    """Write and read."""
    upgrade_schema(url)
    with open_store(url) as store:
        key = counter_key(DOMAIN)
        csn = write(store, put(key), number=commit()).csn
        reading = store.read(DOMAIN, [key])
        assert reading.head.csn == csn
        assert reading.records[key].record.generation == 1


# --- identities -----------------------------------------------------------------------------------------------


def test_nodes_of_an_identity_are_closed_to_others(zookeeper: ZookeeperServer) -> None:
    url = zookeeper.url().replace("://", f"://me:{QUOTED}@")
    use(url)
    chroot = parsed(url).chroot
    assert acls_of(zookeeper.hosts, chroot, ("digest", f"me:{ODD}")) == {"digest:31"}
    stranger = KazooClient(hosts=zookeeper.hosts)
    stranger.start()
    for attempt in (
        lambda: stranger.get(f"{chroot}/schema"),
        lambda: stranger.get_children(f"{chroot}/domains"),
        lambda: stranger.set(f"{chroot}/clock", b""),
        lambda: stranger.create(f"{chroot}/theirs", b""),
        lambda: stranger.delete(f"{chroot}/domains/d/head"),
    ):
        with pytest.raises(NoAuthError):
            attempt()
    stranger.stop()
    stranger.close()


@pytest.mark.parametrize("login", ["", "me:wrong@", "you:p@"])
def test_a_wrong_identity_is_refused_for_good(zookeeper: ZookeeperServer, login: str) -> None:
    url = zookeeper.url().replace("://", "://me:right@")
    upgrade_schema(url)
    wrong = url.replace("me:right@", login)
    for attempt in (open_store, check_schema, upgrade_schema):
        began = time.monotonic()
        with pytest.raises(StoreIncompatible, match="this user may not do so") as refused:
            attempt(wrong)
        assert time.monotonic() - began < 10
        assert "the identity that made the store" in refused.value.next_step
        assert "wrong" not in str(refused.value)
    assert check_schema(url).fit is Fit.CURRENT


def writes(zookeeper: ZookeeperServer) -> int:
    """The number of the ensemble's last write."""
    line = next(line for line in zookeeper.word(b"srvr").splitlines() if line.startswith("Zxid"))
    return int(line.split()[1], 16)


def test_an_identity_that_may_read_alone_writes_nothing(zookeeper: ZookeeperServer) -> None:
    """But for one try, which is refused; then this host's time stands for the servers'."""
    reader = make_digest_acl_credential("reader", "r")
    url = zookeeper.url().replace("://", "://me:right@") + f"?{urlencode({'readers': f'digest:{reader}'})}"
    use(url)
    theirs = url.partition("?")[0].replace("me:right@", "reader:r@")
    with open_store(url) as store, open_store(theirs) as only:
        key = counter_key(DOMAIN)
        only.read(DOMAIN, [key])
        began = writes(zookeeper)
        reading = only.read(DOMAIN, [key])
        assert reading.records[key].record.generation == 1
        assert abs(reading.now - datetime.now(UTC)) < timedelta(minutes=1)
        assert only.scan(DOMAIN, Kind.TOPOLOGY, "")
        assert writes(zookeeper) == began
        waiting = commit("next")
        write(store, put(key, 2), number=waiting)
        assert only.watch(DOMAIN, 1, timedelta(seconds=20)) == 2
        with pytest.raises(StoreIncompatible, match="this user may not do so"):
            write(only, put(key, 3))
    with pytest.raises(StoreIncompatible, match="this user may not do so"):
        open_store(theirs.replace("reader:r@", "stranger:s@"))


def test_one_client_too_many_is_told_so(tmp_path: Path) -> None:
    """A server refuses further clients of a host by ending their connections without a word."""
    with ZookeeperServer(directory=tmp_path, settings={"maxClientCnxns": "2"}) as server:
        url = server.url()
        upgrade_schema(url)
        with open_store(url), open_store(url):
            with pytest.raises(StoreUnavailable) as refused:
                ZookeeperStore(parsed(url), timeout=timedelta(seconds=2)).open()
            assert "maxClientCnxns" in refused.value.next_step


def test_without_an_identity_every_client_may(zookeeper: ZookeeperServer) -> None:
    url = zookeeper.url()
    use(url)
    assert acls_of(zookeeper.hosts, parsed(url).chroot, None) == {"world:31"}


def test_a_login_over_a_network_needs_a_word_about_encryption() -> None:
    with pytest.raises(InvalidInput, match="tls=verify-full") as refused:
        open_store("zookeeper://me:secret@zk.example:2181/epochs")
    assert "secret" not in str(refused.value)
    assert parsed("zookeeper://me:secret@zk.example:2181/epochs?tls=off").tls == "off"
    assert parsed("zookeeper://me:secret@[::1]:2181,localhost/epochs").tls == "off"


def test_sasl_authenticates_the_user(secured: tuple[ZookeeperServer, int]) -> None:
    server, _ = secured
    url = server.url(options="?auth=sasl").replace("://", f"://{USER}:{PASSWORD}@")
    use(url)
    with pytest.raises(StoreIncompatible, match="this user may not do so"):
        open_store(url.replace(f"{USER}:{PASSWORD}@", "").replace("?auth=sasl", ""))
    began = time.monotonic()
    with pytest.raises(StoreIncompatible, match="login or password is wrong") as refused:
        open_store(url.replace(PASSWORD, "wrong-horse"))
    assert time.monotonic() - began < 15
    assert "wrong-horse" not in str(refused.value)


# --- encryption -----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings(
    # kazoo leaves the socket of a handshake that failed to the garbage collector
    "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"
)
def test_encrypted_connection_verifies_host_and_certificate(
    secured: tuple[ZookeeperServer, int], certificates: Path
) -> None:
    server, port = secured
    ours = f"cert={certificates}/client.crt&key={certificates}/client.key"
    named = server.url(options=f"?ca={certificates}/ca.pem&{ours}").replace(server.hosts, f"localhost:{port}")
    assert parsed(named).tls == "verify-full"
    use(named)
    by_address = named.replace("localhost", "127.0.0.1")
    with open_store(f"{by_address}&tls=verify-ca") as store:
        assert store.read(DOMAIN, []).head.csn == 1
    timeout = timedelta(seconds=1)
    with pytest.raises(StoreUnavailable, match=r"(?i)certificate|ip address|hostname"):
        ZookeeperStore(parsed(by_address), timeout=timeout).open()
    stranger = named.replace(f"{certificates}/ca.pem", f"{certificates}/client.crt")
    with pytest.raises(StoreUnavailable, match=r"(?i)certificate"):
        ZookeeperStore(parsed(stranger), timeout=timeout).open()
    with pytest.raises(StoreUnavailable):
        ZookeeperStore(parsed(named.replace(f"&{ours}", "")), timeout=timeout).open()
    with pytest.raises(StoreIncompatible, match="this user may not do so"):
        open_store(server.url(parsed(named).chroot.lstrip("/")))
    gc.collect()
