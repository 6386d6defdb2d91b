"""What a domain remembers of its rollbacks: as much as its record holds, and never less than was taken back."""

from __future__ import annotations

from airflow_provider.domain.identifiers import TableName
from airflow_provider.domain.rollback import (
    MOST_REMEMBERED,
    MOST_TABLES,
    Rollback,
    RolledTable,
    remembered,
)


def rollback(number: int, *tables: str) -> Rollback:
    """The rollback at ten times *number*, of what was committed in the five CSNs before."""
    csn = 10 * number
    taken = tuple(RolledTable(table=TableName(table), since=csn - 4) for table in tables)
    return Rollback(to=csn - 5, csn=csn, tables=taken, why=f"{number}")


def test_a_reader_between_the_first_commit_and_the_rollback_may_have_seen_more() -> None:
    taken = rollback(1, "a")
    assert [csn for csn in range(1, 12) if taken.has_taken(TableName("a"), csn)] == [6, 7, 8, 9]
    assert not any(taken.has_taken(TableName("b"), csn) for csn in range(12))


def test_rollbacks_beyond_the_limit_count_as_one_of_all_tables() -> None:
    known: tuple[Rollback, ...] = ()
    for number in range(1, 61):
        known = remembered(known, rollback(number, "a"))
    assert len(known) == MOST_REMEMBERED
    assert known[-1] == rollback(60, "a")
    for number in range(1, 61):
        assert any(entry.has_taken(TableName("a"), 10 * number - 1) for entry in known), number
    assert any(entry.has_taken(TableName("never"), 9) for entry in known)
    assert not any(entry.has_taken(TableName("a"), 595) for entry in known[:-1])


def test_the_oldest_forget_which_tables_they_were_about() -> None:
    many = [f"t{number}" for number in range(MOST_TABLES)]
    known = remembered((rollback(1, "a"),), rollback(2, *many))
    assert [len(entry.tables) for entry in known] == [0, MOST_TABLES]
    assert known[0].has_taken(TableName("b"), 9)
    (alone,) = remembered((), rollback(1, *many, "one more"))
    assert alone.tables == ()
