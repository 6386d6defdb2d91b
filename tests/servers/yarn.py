"""A private YARN: Hadoop's own resource manager and one node manager, in one process of the test's user."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from demo.spark_connect import spark_home

PROGRAM = Path(__file__).with_name("YarnCluster.java")
JAVA = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
_TIMEOUT_S = 180


class YarnCluster:
    """A running cluster; entering compiles and starts it, leaving ends it.

    :param jars: Hadoop's mini cluster and what it needs beside Spark's jars. :param home: its folder.
    """

    def __init__(self, jars: Sequence[Path], home: Path) -> None:
        self.home = home
        self.configuration = home / "conf"
        self._path = os.pathsep.join([str(home / "classes"), *map(str, jars), f"{spark_home()}/jars/*"])

    def __enter__(self) -> Self:
        compiled = ["javac", "--release", "17", "-proc:none", "-cp", self._path, "-d", f"{self.home}/classes"]
        subprocess.run([*compiled, str(PROGRAM)], check=True)
        with (self.home / "log").open("wb") as log:
            self._process = subprocess.Popen(
                ["java", *JAVA, "-cp", self._path, PROGRAM.stem, str(self.home), str(self.configuration)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End it: it stops at the end of its input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def command(self, folder: Path) -> Path:
        """Write Hadoop's command ``yarn`` into *folder*; return its path."""
        client = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
        path = folder / "yarn"
        path.write_text(f'#!/bin/sh\nexec java -cp "{self.configuration}:{self._path}" {client} "$@"\n')
        path.chmod(0o755)
        return path

    def _wait(self) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        while not (self.configuration / "yarn-site.xml").exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"YARN did not start: {(self.home / 'log').read_text()[-2000:]}")
            time.sleep(0.1)
