"""What sources say of themselves: tables of others, and folders with late files."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyiceberg.types import LongType

from airflow_provider.domain.completeness import min_files, none_needed
from airflow_provider.domain.errors import EpochError, InvalidInput, NotReady, SourceUnavailable, Unavailable
from airflow_provider.domain.identifiers import JobName
from airflow_provider.domain.source_bounds import (
    BoundFile,
    BoundsRequest,
    FileSource,
    IcebergSource,
    PostgresSource,
    Source,
    SourceBounds,
    SourceRecord,
    Span,
)
from airflow_provider.sources import locations
from airflow_provider.sources.reader import IcebergRows, ParquetRows
from airflow_provider.sources.readers import SourceReaders
from airflow_provider.tables import parquet_files
from tests.contract.coordination_world import day
from tests.contract.lakes import Lake, prices


def recorded(bounds: SourceBounds, number: int) -> SourceRecord:
    return SourceRecord(bounds=bounds, job=JobName("a"), interval=day(number))


def asked(lake: Lake, source: Source, number: int, *before: SourceBounds) -> SourceBounds:
    """The bounds of a barrier, given those of the barriers before it, the nearest first."""
    known = tuple(recorded(bounds, number - back) for back, bounds in enumerate(before, 1))
    return lake.sources().bounds(BoundsRequest(source=source, interval=day(number), before=known))


def span_of(bounds: SourceBounds) -> Span:
    assert bounds.span is not None
    return bounds.span


def span(lake: Lake, low: int | None, high: int | None = None) -> Span:
    return Span(low=low, high=high or lake.newest, identity=str(lake.table.metadata.table_uuid))


def test_the_state_of_a_table_of_others(lake: Lake) -> None:
    """I11: the snapshot at begin, whatever is committed on top."""
    source = prices(reads="state")
    lake.append(1)
    first = asked(lake, source, 1)
    lake.overwrite(7, 8)
    second = asked(lake, source, 2, first)
    lake.append(9)
    between = lake.sources().bounds(
        BoundsRequest(
            source=source, interval=day(2), before=(recorded(first, 1),), after=(recorded(second, 3),)
        )
    )
    found = [lake.values(source, span_of(bounds)) for bounds in (first, between, second)]
    assert found == [[1], [1], [7, 8]]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("overwrite", "operation 'delete'"),
        ("rolled back", "rolled back"),
        ("expired", "has expired"),
        ("the last one expired", "has expired"),
        ("made anew", "made anew"),
    ],
)
def test_rows_that_were_changed_are_no_increment(lake: Lake, change: str, told: str) -> None:
    """The snapshot and its operation are named."""
    source = prices()
    lake.append(0)
    known = lake.append(1)
    first = asked(lake, source, 1)
    match change:
        case "overwrite":
            lake.overwrite(5)
        case "rolled back":
            lake.rolled_back()
            lake.append(3)
        case "made anew":
            lake.catalog.drop_table("market.prices")
            lake.make()
            lake.append(2)
        case _:
            between = lake.append(2)
            lake.append(3)
            lake.expire(between if change == "expired" else known)
    with pytest.raises(Unavailable, match=told) as refused:
        asked(lake, source, 2, first)
    if change == "overwrite":
        assert refused.value.snapshot in {snapshot.snapshot_id for snapshot in lake.table.snapshots()} - {
            known
        }
    elif change != "made anew":
        assert refused.value.snapshot == known
    assert refused.value.next_step


def test_a_snapshot_that_expired_after_it_was_recorded_is_told(lake: Lake) -> None:
    source = prices(reads="state")
    gone = lake.append(1)
    bounds = asked(lake, source, 1)
    lake.sources().check_unchanged(source, bounds)
    lake.append(2)
    lake.expire(gone)
    with pytest.raises(Unavailable, match="has expired") as refused:
        lake.sources().check_unchanged(source, bounds)
    assert refused.value.snapshot == gone
    with pytest.raises(Unavailable, match="has expired"):
        lake.values(source, span_of(bounds))


@pytest.mark.parametrize("nested", [False, True])
def test_a_default_is_read_by_icebergs_runtime(lake: Lake, *, nested: bool) -> None:
    """I11: files that lack a column do not tell its default, also of a field within a struct, list or map."""
    first = lake.append(1)
    lake.append(2)
    column = {
        "id": 50,
        "name": "c",
        "required": False,
        "type": "int",
        "initial-default": 5,
        "write-default": 5,
    }
    struct = {"type": "struct", "fields": [column]}
    listed = {"type": "list", "element-id": 61, "element-required": False, "element": struct}
    lake.add_default({"id": 60, "name": "s", "required": False, "type": listed} if nested else column)
    for low in (None, first):
        read = lake.rows(prices(), span(lake, low))
        assert isinstance(read, IcebergRows)
        assert read.why.startswith(f"the default 5 of column {'s.element.c' if nested else 'c'}")
        assert (read.low, read.high, read.metadata) == (low, lake.newest, lake.table.metadata_location)
        assert list(read.names) == read.columns.names == ["value", "s" if nested else "c"]
    assert lake.values(prices(), span(lake, lake.newest)) == []


def test_files_without_column_ids_are_read_by_icebergs_runtime(lake: Lake) -> None:
    """I11: an increment of files that have ids is read from them, as before."""
    plain = lake.add_plain_file(1)
    lake.append(2)
    read = lake.rows(prices(), span(lake, None))
    assert isinstance(read, IcebergRows)
    assert read.why == "files without column ids"
    assert lake.values(prices(), span(lake, plain)) == [2]


def test_the_runtime_opens_no_metadata_file_of_another_name(lake: Lake) -> None:
    """I11: it knows a metadata file by its name."""
    lake.add_plain_file(1)
    renamed = Path(lake.table.metadata_location.removeprefix("file://"))
    lake.point_to(f"file://{renamed.rename(renamed.with_name('newest.json'))}")
    with pytest.raises(InvalidInput, match=r"its metadata file is no metadata\.json"):
        lake.rows(prices(), span(lake, None))


def test_a_value_that_a_partition_alone_tells_is_read_by_icebergs_runtime(lake: Lake) -> None:
    """I11: files that were written without the column by which they are separated would be read as null there."""
    lake.append(1)
    lake.separate_by("text")
    before = lake.append_separated(2, "a")
    nothing = lake.append_bare(3, None)
    assert lake.values(prices(), span(lake, None)) == [1, 2, 3]
    lake.append_bare(4, "b")
    for read in (lake.rows(prices(), span(lake, before)), lake.rows(prices(reads="state"), span(lake, None))):
        assert isinstance(read, IcebergRows)
        assert read.why == "files without the column text that separates them"
    assert lake.values(prices(), span(lake, before, nothing)) == [3]


@pytest.mark.parametrize(
    ("what", "error", "told"),
    [
        ("lost", Unavailable, "bare-4.parquet is missing"),
        ("damaged", Unavailable, "bare-4.parquet is damaged"),
        ("no answer", SourceUnavailable, "a file of lake.market.prices.* did not answer: TimeoutError"),
    ],
)
def test_files_that_do_not_tell_their_columns_are_not_taken_as_they_are(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, what: str, error: type[EpochError], told: str
) -> None:
    """I11: whether a partition alone has a value is asked of each file; without an answer nothing is read."""
    lake.append(1)
    lake.separate_by("text")
    lake.append_bare(4, "b")
    file = Path(f"{lake.table.location()}/bare-4.parquet".removeprefix("file://"))
    match what:
        case "lost":
            file.unlink()
        case "damaged":
            file.write_bytes(b"PAR1")
        case _:
            monkeypatch.setattr(parquet_files, "_opened", _silent)
    with pytest.raises(error, match=told) as refused:
        lake.rows(prices(), span(lake, None))
    if what != "no answer":
        assert "owner of the table" in refused.value.next_step, "no epoch of this domain brings it back"


def _silent(root: str) -> None:
    raise TimeoutError(root)


def test_footers_of_files_with_column_ids_are_read_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """I11: files never change, and a table that maps names to columns may have many of them."""
    plain = lake.add_plain_file(1)
    lake.append(2)
    opened: list[str] = []
    open_root = parquet_files._opened
    monkeypatch.setattr(parquet_files, "_opened", lambda root: opened.append(root) or open_root(root))
    for _ in range(3):
        assert isinstance(lake.rows(prices(), span(lake, plain)), ParquetRows)
    assert len(opened) == 1
    for _ in range(2):
        assert isinstance(lake.rows(prices(), span(lake, None, plain)), IcebergRows)
    assert len(opened) == 3


def test_an_increment_goes_by_the_names_that_columns_have_now(lake: Lake) -> None:
    """I11: the runtime gives an increment the table's present columns; one that was dropped since is named."""
    first, second = lake.append(1), lake.add_plain_file(2)
    lake.rename("value", "price")
    read = lake.rows(prices(), span(lake, first, second))
    assert isinstance(read, IcebergRows)
    assert (list(read.names), read.columns.names) == (["price"], ["value"])
    with lake.table.update_schema() as update:
        update.add_column("other", LongType())
        update.delete_column("price")
    with pytest.raises(InvalidInput, match="column 'value' was dropped since"):
        lake.rows(prices(), span(lake, first, second))
    state = lake.rows(prices(reads="state"), span(lake, None, second))
    assert isinstance(state, IcebergRows)
    assert list(state.names) == ["value"]


def test_many_epochs_that_share_a_folder_cannot_tell_late_files(tmp_path: Path) -> None:
    """A bound that might take a file for the second time is refused; so is looking where earlier epochs may have."""
    source = FileSource("landing", f"{tmp_path}/{{start:%Y-%m}}/*.csv", late="next", complete=none_needed())
    for name in ("2024-01/0.csv", "2024-02/1.csv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()

    def one(number: int) -> SourceRecord:
        return SourceRecord(bounds=SourceBounds(source="landing"), job=JobName("a"), interval=day(number))

    near = tuple(one(number) for number in range(32, 25, -1))
    found = SourceReaders().bounds(
        BoundsRequest(source=source, interval=day(33), before=near, beyond=one(25))
    )
    assert [Path(file.uri).name for file in found.files] == ["1.csv"]
    found = SourceReaders().bounds(BoundsRequest(source=source, interval=day(33), before=near))
    assert [Path(file.uri).name for file in found.files] == ["0.csv", "1.csv"]
    with pytest.raises(InvalidInput, match="at most 7 days, 0:00:00 share") as refused:
        SourceReaders().bounds(
            BoundsRequest(source=source, interval=day(43), before=(one(42),), beyond=one(35))
        )
    assert "late_window" in refused.value.next_step


def test_a_file_that_locations_of_several_epochs_match_is_read_once(tmp_path: Path) -> None:
    """I11: of an epoch whose file is not recorded yet, and of two earlier ones that would read it late."""
    location = f"{tmp_path}/{{start:%Y-%m}}-{{start.day}}*.csv"
    source = FileSource("landing", location, complete=none_needed(), late_window=timedelta(days=60))
    for name in ("2024-01-20", "2024-01-111"):
        (tmp_path / f"{name}.csv").touch()
    empty = SourceBounds(source=source.name)
    before = tuple(recorded(empty, number) for number in (11, 2, 1))
    found = SourceReaders().bounds(BoundsRequest(source=source, interval=day(20), before=before))
    assert [Path(file.uri).name for file in found.files] == ["2024-01-111.csv", "2024-01-20.csv"]


@pytest.mark.parametrize(
    ("location", "found"),
    [
        ("{start:%Y-%m-%d}T*", None),
        ("{start:%Y-%m-%d}T*/", None),
        ("{start:%Y-%m-%d}T*/clicks", None),
        ("{start:%Y-%m-%d}T*/*", 1),
        ("{start:%Y-%m-%d}T*/**", 2),
        ("{start:%Y-%m-%d}T00", 2),
        ("*", 0),
        ("{end:%Y-%m-%d}T*", 0),
    ],
)
def test_a_pattern_of_folders_is_refused(tmp_path: Path, location: str, found: int | None) -> None:
    """I11: it matches no file, so that the epoch would be empty beside files that it was to read."""
    for name in ("2024-01-01T00/clicks/a.csv", "2024-01-01T00/b.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    source = FileSource("landing", f"{tmp_path}/{location}", late="ignore", complete=none_needed())
    asking = BoundsRequest(source=source, interval=day(1))
    if found is not None:
        assert len(SourceReaders().bounds(asking).files) == found
        return
    with pytest.raises(InvalidInput, match=r"it matches folders, .*such as .*\.csv"):
        SourceReaders().bounds(asking)
    waiting = FileSource("landing", source.location, late="ignore", complete=min_files(1))
    with pytest.raises(NotReady, match="0 files of at least 1"):
        SourceReaders().bounds(replace(asking, source=waiting))


def test_bounds_recorded_as_files_are_no_span() -> None:
    source = prices()
    files = SourceBounds(source="prices", files=(BoundFile(uri="file:///in", size_bytes=1),))
    with pytest.raises(InvalidInput, match="another name"):
        SourceReaders({"lake_db": "sqlite:////nowhere"}).check_unchanged(source, files)


def test_bounds_recorded_as_a_span_are_no_files() -> None:
    """I11: there would be no file to compare, and so nothing that has changed."""
    source = FileSource("prices", "/in/{start:%Y-%m-%d}.csv", late="ignore", complete=none_needed())
    of_table = SourceBounds(source="prices", span=Span(low=None, high=1, identity="a table"))
    with pytest.raises(InvalidInput, match="another name"):
        SourceReaders().check_unchanged(source, of_table)


def test_a_catalog_that_is_not_configured_is_named() -> None:
    source = IcebergSource("prices", "nowhere.market.prices")
    with pytest.raises(InvalidInput, match=r"nowhere\.market\.prices.*PYICEBERG_CATALOG__NAME__URI"):
        SourceReaders().bounds(BoundsRequest(source=source, interval=day(1)))


def test_a_client_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    source = PostgresSource("orders", "orders", connection="shop", id_column="id")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InvalidInput, match=r"airflow-provider-epochs\[postgres\]"):
        SourceReaders({"shop": "postgresql://nowhere/shop"}).bounds(
            BoundsRequest(source=source, interval=day(1))
        )


@pytest.mark.parametrize(
    ("location", "name", "lies"),
    [
        ("/in/{start:%Y-%m-%d}/*.csv", "/in/2024-01-02/a.csv", True),
        ("/in/{start:%Y-%m-%d}/*.csv", "/in/2024-01-01/a.csv", False),
        ("/in/{start:%Y-%m-%d}/*.csv", "/in/2024-01-02/more/a.csv", False),
        ("/in/{start:%Y-%m-%d}/**/*.csv", "/in/2024-01-02/more/still/a.csv", True),
        ("/in/{start:%Y-%m-%d}/**/*.csv", "/in/2024-01-02/a.csv", True),
        ("/in/{start:%Y-%m-%d}/**", "/in/2024-01-02/more/a.csv", True),
        ("/in/{start:%Y-%m-%d}", "/in/2024-01-02/more/a.csv", True),
        ("/in/{start:%Y-%m-%d}", "/in/2024-01-02x/a.csv", False),
        ("/in/*-{start:%Y-%m-%d}.csv", "/in/x-2024-01-02.csv", True),
        ("/in/*-{start:%Y-%m-%d}.csv", "/in/x-2024-01-01.csv", False),
    ],
)
def test_a_file_is_told_from_late_ones_by_its_name(location: str, name: str, lies: bool) -> None:
    """I11: what lies at an epoch's own location stays there when the epoch is skipped."""
    source = FileSource("landing", location, late="ignore", complete=none_needed())
    assert locations.lies_at(source, day(2), f"file://{name}") is lies
