"""Settings of Google's object store: refused by name before Arrow opens anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider.domain.errors import InvalidInput
from airflow_provider.tables import clouds, storage
from airflow_provider.tables.factory import open_formats


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(clouds, "_PRODUCT", tmp_path / "product_name")


def test_a_store_without_credentials_is_refused_before_anything_opens() -> None:
    """R22: Arrow would wait for minutes."""
    uri = "gs://lake/epochs"
    for opened in (lambda: open_formats("sqlite:////srv/epochs.db", uri), lambda: storage.filesystem(uri)):
        with pytest.raises(
            InvalidInput, match="credentials.*Next step: set GOOGLE_APPLICATION_CREDENTIALS"
        ) as refused:
            opened()
        assert refused.value.field == "warehouse"


def test_credentials_of_google_are_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))
    with pytest.raises(InvalidInput, match=r"missing\.json") as refused:
        open_formats("sqlite:////srv/epochs.db", "gs://lake")
    assert refused.value.field == "GOOGLE_APPLICATION_CREDENTIALS"
    (tmp_path / "missing.json").write_text("{}")
    open_formats("sqlite:////srv/epochs.db", "gs://lake")


@pytest.mark.parametrize(("product", "served"), [("Google Compute Engine\n", True), ("Standard PC\n", False)])
def test_googles_machines_have_credentials(product: str, served: bool, tmp_path: Path) -> None:
    (tmp_path / "product_name").write_text(product)
    try:
        clouds.check("gs://lake/epochs")
    except InvalidInput:
        assert not served
    else:
        assert served
