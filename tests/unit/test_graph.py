"""Places of a topology's nodes: from left to right, few crossings, also with circles."""

from __future__ import annotations

from airflow_provider.coordination.reading.graph import Arrow, Node, places


def drawn(*arrows: str, past: str = "") -> dict[str, tuple[int, int]]:
    """Places of the nodes in *arrows* such as ``a>b``; *past* reads the past only."""
    names = dict.fromkeys(name for arrow in arrows for name in arrow.split(">"))
    nodes = [Node(id=name, kind="job", name=name, about="") for name in names]
    found = [Arrow(start=arrow[0], end=arrow[2], is_past=arrow == past) for arrow in arrows]
    return places(nodes, found)


def test_node_stands_behind_all_that_lead_to_it() -> None:
    found = drawn("a>b", "b>c", "a>c", "c>d")
    assert {name: column for name, (column, _) in found.items()} == {"a": 0, "b": 1, "c": 2, "d": 3}


def test_arrows_do_not_cross_where_they_need_not() -> None:
    """Of two chains that begin in one order and are declared in the other, each stays on its line."""
    found = drawn("a>x", "b>y", "y>m", "x>n")
    assert (
        (found["a"][1] < found["b"][1]) == (found["x"][1] < found["y"][1]) == (found["n"][1] < found["m"][1])
    )


def test_reading_the_own_past_does_not_move_a_job() -> None:
    found = drawn("j>t", "t>j", past="t>j")
    assert found == {"j": (0, 0), "t": (1, 0)}


def test_circle_is_drawn_too() -> None:
    found = drawn("a>b", "b>c", "c>a", "c>d")
    assert len(set(found.values())) == len(found)
    assert found["d"][0] > found["c"][0]
