"""Which of Spark's masters run in the program that asks for them."""

from __future__ import annotations

import pytest

from airflow_provider.spark.session import is_in_process


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,3]"])
def test_spark_in_the_program(master: str) -> None:
    assert is_in_process(master)


@pytest.mark.parametrize(
    "master",
    [None, "", "yarn", "spark://local:7077", "local-cluster[1,1,1024]", "local[2", "local[]", "sc://local"],
)
def test_spark_elsewhere(master: str | None) -> None:
    assert not is_in_process(master)
