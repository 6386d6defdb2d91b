"""Contract suite of metadata stores, for the package's stores and for authors of other stores.

Subclass it in a test module and provide the backend::

    class TestMyStore(StoreContract):
        @pytest.fixture
        def backend(self) -> StoreBackend:
            return MyBackend(...)

Each case uses its own domain, so that one server may serve all cases.
"""

from __future__ import annotations

from airflow_provider.testing.store_cases.backend import StoreBackend
from airflow_provider.testing.store_cases.catalog import CatalogCases
from airflow_provider.testing.store_cases.compatibility import CompatibilityCases
from airflow_provider.testing.store_cases.concurrency import ConcurrencyCases
from airflow_provider.testing.store_cases.reading import ReadingCases
from airflow_provider.testing.store_cases.transactions import TransactionCases

__all__ = ["StoreBackend", "StoreContract"]


class StoreContract(ReadingCases, TransactionCases, CatalogCases, CompatibilityCases, ConcurrencyCases):
    """All cases; override the fixture ``backend``."""
