"""One suite for every table format: subclass :class:`TableContract` and give it a backend.

.. code-block:: python

    class TestMyFormat(TableContract):
        @pytest.fixture
        def backend(self) -> Iterator[TableBackend]:
            yield MyBackend(...)
"""

from __future__ import annotations

from airflow_provider.testing.table_cases.backend import TableBackend
from airflow_provider.testing.table_cases.model import ModelCases
from airflow_provider.testing.table_cases.publishing import PublishingCases
from airflow_provider.testing.table_cases.reading import ReadingCases
from airflow_provider.testing.table_cases.reclaiming import ReclaimingCases
from airflow_provider.testing.table_cases.writing import WritingCases

__all__ = ["TableBackend", "TableContract"]


class TableContract(WritingCases, PublishingCases, ReadingCases, ReclaimingCases, ModelCases):
    """What every table format promises."""
