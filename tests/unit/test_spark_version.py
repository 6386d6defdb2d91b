"""Which pyspark computes epochs."""

from __future__ import annotations

import pytest

from airflow_provider.domain.errors import MissingLibrary
from airflow_provider.spark.columns import refuse_old


@pytest.mark.parametrize("version", ["3.5.8", "4.0.4", "4.0.0.dev1"])
def test_an_older_pyspark_is_refused_by_name(version: str) -> None:
    with pytest.raises(MissingLibrary, match=rf"pyspark {version} is too old: .* pyspark==4\.1\.3") as caught:
        refuse_old(version)
    assert caught.value.library == "pyspark"


@pytest.mark.parametrize("version", ["4.1.3", "4.2.0"])
def test_another_one_is_taken(version: str) -> None:
    refuse_old(version)
