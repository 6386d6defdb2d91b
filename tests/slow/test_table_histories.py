"""Iceberg tables against the reference model, with more histories than the contract tier has time for."""

from __future__ import annotations

from tests.contract.test_table_contract import IcebergHistories


class TestManyHistories(IcebergHistories):
    """Iceberg."""

    examples = 120
