"""Fixtures for tests of pipelines; a project enables them in its ``conftest.py``:

.. code-block:: python

    pytest_plugins = ["airflow_provider.testing.pytest_plugin"]
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider.testing.local_epochs import LocalEpochs

_SPARK_HERE = json.dumps({"conn_type": "spark", "host": "local[2]"})


@pytest.fixture
def local_epochs(tmp_path: Path) -> Iterator[LocalEpochs]:
    """An empty store on SQLite and an empty warehouse, in the test's own folder."""
    folder = tmp_path / "epochs"
    folder.mkdir()
    with LocalEpochs(folder) as epochs:
        yield epochs


@pytest.fixture
def local_connections(local_epochs: LocalEpochs, monkeypatch: pytest.MonkeyPatch) -> LocalEpochs:
    """The same for ``dag.test()``: the default connections of operators lead to this store and to Spark on this host.

    These are ``epochs_default``, ``spark_default`` and ``spark_connect_default``.
    """
    monkeypatch.setenv("AIRFLOW_CONN_EPOCHS_DEFAULT", local_epochs.connection)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", _SPARK_HERE)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_CONNECT_DEFAULT", _SPARK_HERE)
    return local_epochs
