"""Google's object store for tests: an emulator, as a process of its own, and the settings of its clients.

It keeps everything in memory and checks no credentials: it shows that the requests are right, not that a server is.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyarrow.fs as pafs

from airflow_provider.tables.storage import open_root
from tests.servers.managed import ManagedServer
from tests.servers.ports import free_port

ROOT = Path(__file__).parents[2]
PREPARE = ROOT / "scripts" / "prepare-clouds"
EMULATORS = ROOT / ".emulators"


class GoogleEmulator(ManagedServer):
    """Google Cloud Storage; :attr:`environment` leads this package to it."""

    def __init__(self, home: Path) -> None:
        port = free_port()
        address = f"127.0.0.1:{port}"
        command = [str(EMULATORS / "bin" / "fake-gcs-server"), "-scheme", "http", "-host", "127.0.0.1"]
        command += ["-port", str(port), "-backend", "memory", "-public-host", address, "-log-level", "error"]
        super().__init__(
            name="gcs", command=[*command, "-external-url", f"http://{address}"], port=port, home=home
        )
        self.environment = {"STORAGE_EMULATOR_HOST": f"http://{address}", "GOOGLE_CLOUD_PROJECT": "tests"}

    def start(self) -> None:
        """Build what is not there yet, and start it.

        :raises subprocess.CalledProcessError: it cannot be built.
        """
        subprocess.run([PREPARE], check=True)
        super().start()

    def root(self, bucket: str) -> str:
        """The URI of a bucket."""
        return f"gs://{bucket}/"

    def filesystem(self) -> pafs.FileSystem:
        """The store, by this process's environment."""
        return open_root(self.root("any"))

    def make_bucket(self, name: str) -> None:
        self.filesystem().create_dir(name)

    def keys(self, bucket: str) -> list[str]:
        """The objects of a bucket, without the marks that stand for directories."""
        found = self.filesystem().get_file_info(pafs.FileSelector(bucket, recursive=True))
        return sorted(info.path for info in found if info.is_file)
