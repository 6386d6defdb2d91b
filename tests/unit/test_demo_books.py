"""What the word tables must hold: counted from the text, and tied together by one sum."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from demo import books
from demo.books import A_DAY, BOOKS, EVERY, TABLES, BookTotals
from demo.measures import measure
from demo.readers.reading import compare
from demo.source import Days

DAY = Days(first=date(2013, 2, 2), count=1)
ALL = Days(first=DAY.first, count=9)


@pytest.fixture(scope="module")
def totals() -> BookTotals:
    return BookTotals.of(ALL)


def after(book: int) -> datetime:
    return DAY.start + book * EVERY


# Genesis alone, the first two books, and all of them, as `tr`, `sort` and `uniq` count them.
@pytest.mark.parametrize(
    ("book", "words", "different", "seen_once"),
    [(1, 38273, 2506, 1013), (2, 70959, 3399, 1213), (66, 789668, 12877, 4096)],
)
def test_the_text_has_so_many_words(
    totals: BookTotals, book: int, words: int, different: int, seen_once: int
) -> None:
    found = totals.up_to(after(book))
    assert found["count_of_counts"] == {"words": words, "different": different, "seen_once": seen_once}
    assert found["word_counts"] == {"words": words, "different": different}
    assert found["book_words"] == {"words": words}


def test_eight_books_land_in_a_day_and_all_in_nine(totals: BookTotals, tmp_path: Path) -> None:
    assert books.land(tmp_path, DAY) == A_DAY == 8
    names = sorted(path.name for path in (tmp_path / "books").iterdir())
    assert (names[0], names[-1]) == ("2013-02-02T00.txt", "2013-02-02T21.txt")
    first = (tmp_path / "books" / names[0]).read_text().splitlines()
    assert first[0] == "In the beginning God created the heaven and the earth."
    assert len(totals.barriers) == len(list(books.books())) == BOOKS
    assert BookTotals.of(DAY).barriers == totals.barriers[:8]


def test_totals_survive_their_file(totals: BookTotals, tmp_path: Path) -> None:
    totals.save(tmp_path / "totals.json")
    assert BookTotals.load(tmp_path / "totals.json").up_to(after(66)) == totals.up_to(after(66))


def tables() -> dict[str, pa.Table]:
    """Of the text "a a b a b c"."""
    uses = [3, 2, 1]
    return {
        "book_words": pa.table({"uses": uses}),
        "word_counts": pa.table({"uses": uses}),
        "count_of_counts": pa.table({"uses": uses, "words": [1, 1, 1]}),
    }


def test_the_sum_of_count_times_words_is_the_words_so_far() -> None:
    end = datetime(2013, 2, 2, 3, tzinfo=UTC)
    known = BookTotals({end: {"words": 6, "different": 3, "seen_once": 1}})
    found = {table: measure(table, rows) for table, rows in tables().items()}
    assert {table: tuple(measures) for table, measures in found.items()} == TABLES
    assert compare(found, known, end) == {}
    behind = {**tables(), "count_of_counts": pa.table({"uses": [2, 1], "words": [1, 1]})}
    found = {table: measure(table, rows) for table, rows in behind.items()}
    assert compare(found, known, end) == {"count_of_counts": {"words": (3, 6), "different": (2, 3)}}
