"""Contract suite of table formats: subclass :class:`TableContract` and provide a backend.

.. code-block:: python

    class TestMyFormat(TableContract):
        @pytest.fixture
        def backend(self) -> Iterator[TableBackend]:
            yield MyBackend(...)

For a format with drafts, subclass :class:`DraftingTableContract`, too; for one that also works with a catalog outside
of the store's database, :class:`ProjectedTableContract`; for one whose snapshots say what they change, mix
:class:`ChangesCases` in, and :class:`CutFileCases` for one with cut files.
"""

from __future__ import annotations

from airflow_provider.testing.table_cases.backend import TableBackend
from airflow_provider.testing.table_cases.changes import ChangesBackend, ChangesCases
from airflow_provider.testing.table_cases.cut_files import CutFileBackend, CutFileCases
from airflow_provider.testing.table_cases.drafting import DraftingBackend, DraftingCases
from airflow_provider.testing.table_cases.evolving import EvolvingCases
from airflow_provider.testing.table_cases.foreign import ForeignCases
from airflow_provider.testing.table_cases.model import ModelCases
from airflow_provider.testing.table_cases.projecting import ProjectingCases
from airflow_provider.testing.table_cases.publishing import PublishingCases
from airflow_provider.testing.table_cases.reading import ReadingCases
from airflow_provider.testing.table_cases.replacing import ReplacingCases
from airflow_provider.testing.table_cases.showing import ShowingCases
from airflow_provider.testing.table_cases.vacuuming import VacuumingCases
from airflow_provider.testing.table_cases.writing import WritingCases

__all__ = [
    "ChangesBackend",
    "ChangesCases",
    "CutFileBackend",
    "CutFileCases",
    "DraftingBackend",
    "DraftingTableContract",
    "ProjectedTableContract",
    "TableBackend",
    "TableContract",
]


class TableContract(
    WritingCases,
    PublishingCases,
    ForeignCases,
    ReplacingCases,
    EvolvingCases,
    ReadingCases,
    VacuumingCases,
    ShowingCases,
    ModelCases,
):
    """Cases for every table format."""


class ProjectedTableContract(PublishingCases, ForeignCases, ReplacingCases, ShowingCases, ProjectingCases):
    """Cases for publishing with a catalog whose pointers follow the store."""


class DraftingTableContract(DraftingCases):
    """Cases for slices that an engine's own statements made."""
