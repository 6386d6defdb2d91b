"""What settings say reaches every part of an opened service."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider.coordination.service import EpochService, Settings
from airflow_provider.domain.errors import InvalidInput, StoreIncompatible
from airflow_provider.domain.read_options import Consistency, Level
from airflow_provider.stores.base import StoreCapability


def settings(folder: Path, **options: object) -> Settings:
    made: dict[str, object] = {
        "store_url": f"sqlite:///{folder}/epochs.db",
        "warehouse": f"file://{folder}/w",
    }
    return Settings(**{**made, **options})  # type: ignore[arg-type]


def test_opened_store_must_have_the_required_capabilities(tmp_path: Path) -> None:
    """Besides what the one who opens requires; each that is missing is named."""
    watch, cluster = StoreCapability.WATCH, StoreCapability.CLUSTER
    asking = settings(tmp_path, require=frozenset({cluster}))
    with pytest.raises(StoreIncompatible, match="cluster-wide"):
        EpochService.open(asking)
    with pytest.raises(StoreIncompatible) as refused:
        EpochService.open(asking, require=frozenset({watch}))
    assert set(refused.value.details["missing"]) == {watch, cluster}
    with pytest.raises(StoreIncompatible, match="watch"):
        EpochService.open(settings(tmp_path), require=frozenset({watch}))
    EpochService.open(settings(tmp_path)).close()


def test_a_catalog_elsewhere_is_refused_where_one_transaction_is_required(tmp_path: Path) -> None:
    """R2, R17: readers by catalog would see tables one after the other."""
    elsewhere = f"sqlite:///{tmp_path}/catalog.db"
    swaps = frozenset({StoreCapability.CATALOG_SWAP})
    with pytest.raises(StoreIncompatible, match="which lies elsewhere"):
        EpochService.open(settings(tmp_path, catalog_url=elsewhere, require=swaps))
    EpochService.open(settings(tmp_path, catalog_url=elsewhere)).close()
    EpochService.open(settings(tmp_path, require=swaps)).close()


def test_sources_and_ways_to_read_are_the_settings(tmp_path: Path) -> None:
    """Reads that name neither level nor consistency take those; jobs find the databases of their sources."""
    connections = {"shop": "postgresql://shop/db"}
    asking = settings(
        tmp_path, connections=connections, read_level="read_uncommitted", read_consistency="altogether"
    )
    with EpochService.open(asking) as service:
        assert service.connections == connections
        assert service.cuts.reading.level is Level.READ_UNCOMMITTED
        assert service.cuts.reading.consistency is Consistency.ALTOGETHER
    with pytest.raises(InvalidInput) as refused:
        EpochService.open(settings(tmp_path, read_level="dirty"))
    assert refused.value.field == "read_level"
    assert Settings.local(tmp_path, connections=connections).connections == connections
