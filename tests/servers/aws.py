"""Servers of AWS for tests and the demo: moto, an emulator from PyPI, in an environment and a process of its own.

It checks no signatures and keeps everything in memory: it shows that the requests are right, not that a server is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.fs as pafs

from tests.servers.managed import ManagedServer
from tests.servers.ports import free_port

ROOT = Path(__file__).parents[2]
PREPARE = ROOT / "scripts" / "prepare-s3"
PYTHON = ROOT / ".venv-s3" / "bin" / "python"
SERVER = """
import sys
from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple
MotoRequestHandler.protocol_version = "HTTP/1.1"
MotoRequestHandler.log_request = lambda *_: None
service, port = sys.argv[1], int(sys.argv[2])
run_simple(
    "127.0.0.1", port, create_backend_app(service), threaded=True, request_handler=MotoRequestHandler
)
"""
"""Program of ``python -m moto.server``, for one service alone: that one looks for each request's service in a hundred
folders, which takes as long as the answer. Connections stay open, and requests are not logged."""

COMPARED = """
import threading
from moto.core.exceptions import JsonRESTError
from moto.glue.responses import GlueResponse
lock, update = threading.Lock(), GlueResponse.update_table
def compared(self):
    given, database, name = (self.parameters.get("VersionId"), self.parameters["DatabaseName"],
        self.parameters["TableInput"]["Name"])
    with lock:
        if given not in (None, self.glue_backend.get_table(database, name).as_dict()["VersionId"]):
            raise JsonRESTError("ConcurrentModificationException", "another update was faster")
        return update(self)
GlueResponse.update_table = compared
"""
"""Addition to the emulator's Glue, which takes an update whatever version the request names. Glue compares it."""


class Emulator(ManagedServer):
    """A running emulator of one service; :attr:`environment` leads any program to it.

    :param service: such as ``s3``. :param home: its log goes to ``home/logs``.
    """

    def __init__(self, service: str, home: Path) -> None:
        port = free_port()
        command = [str(PYTHON), "-c", COMPARED * (service == "glue") + SERVER, service, str(port)]
        super().__init__(name=service, command=command, port=port, home=home)
        self.url = f"http://127.0.0.1:{port}"
        self.environment = {
            "AWS_ENDPOINT_URL": self.url,
            f"AWS_ENDPOINT_URL_{service.upper()}": self.url,  # goes before the other, and may lead to another store
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def start(self) -> None:
        """Install what is not there yet, once per change of its requirements, and start it.

        :raises subprocess.CalledProcessError: it cannot be installed.
        """
        subprocess.run([PREPARE], env={**os.environ, "PYTHON": sys.executable}, check=True)
        super().start()


class S3Emulator(Emulator):
    """An object store."""

    def __init__(self, home: Path) -> None:
        super().__init__("s3", home)

    def filesystem(self) -> pafs.S3FileSystem:
        """The store as its administrator sees it."""
        return pafs.S3FileSystem(
            scheme="http",
            endpoint_override=f"127.0.0.1:{self.port}",
            region="us-east-1",
            access_key="testing",
            secret_key="testing",  # noqa: S106 - the emulator takes any
            allow_bucket_creation=True,
        )

    def make_bucket(self, name: str) -> None:
        self.filesystem().create_dir(name)

    def keys(self, bucket: str) -> list[str]:
        """The objects of a bucket, without the marks that stand for directories."""
        found = self.filesystem().get_file_info(pafs.FileSelector(bucket, recursive=True))
        return sorted(info.path for info in found if info.type is pafs.FileType.File)
