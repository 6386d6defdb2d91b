"""The tables of a store whose catalog is outside of the stores' databases."""

from __future__ import annotations

from pathlib import Path

from pyiceberg.catalog import Catalog

from tests.contract.outside_catalogs import OutsidePlace
from tests.contract.test_table_contract import IcebergBackend


class OutsideBackend(IcebergBackend):
    """Iceberg tables beside a SQLite store, in a catalog of another kind."""

    def __init__(self, folder: Path, place: OutsidePlace) -> None:
        super().__init__(folder, elsewhere=True)
        self.catalog_url = place.url
        self._place = place

    def _outsider(self) -> Catalog:
        return self._place.outsider()
