"""The contract of a metadata store as one suite, for every store and for authors of further ones.

Subclass it in a test module and say where the records are kept::

    class TestMyStore(StoreContract):
        @pytest.fixture
        def backend(self) -> StoreBackend:
            return MyBackend(...)

Each case uses a domain of its own, so that one server may serve them all.
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
