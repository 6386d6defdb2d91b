"""Servers for the slow tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.aws import S3Emulator


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Emulator]:
    """An emulator; this process's environment leads to it, too."""
    with pytest.MonkeyPatch.context() as patch, S3Emulator(tmp_path_factory.mktemp("s3")) as server:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server
