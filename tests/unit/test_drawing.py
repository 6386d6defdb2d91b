"""Drawings of a domain, as ``airflow epochs topology --format`` prints them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow_provider.cli.drawing import graphviz, mermaid
from airflow_provider.domain.registration import JobRecord, declared
from airflow_provider.domain.source_bounds import FileSource
from airflow_provider.domain.topology import Job, Table, previous, window
from airflow_provider.stores.declarations import fingerprint

ORIGIN = datetime(2024, 1, 1, tzinfo=UTC)
RAW, TOTALS = Table("raw"), Table("totals", kind="full")
LOAD = Job(
    'load "all" #1',
    inputs=[FileSource("feed", "/in/{start}")],
    outputs=[RAW],
    cadence="@daily",
    origin=ORIGIN,
)
COUNT = Job(
    "count",
    inputs=[window(RAW, timedelta(days=7), on_upstream_revision="hold"), previous(TOTALS)],
    outputs=[TOTALS],
    cadence="@daily",
    origin=ORIGIN,
)

MERMAID = """\
flowchart LR
  s0[("feed<br>files")]
  j0["load #quot;all#quot; #35;1<br>0 0 * * * UTC"]
  j1["count<br>0 0 * * * UTC"]
  t0(["raw<br>incremental"])
  t1(["totals<br>full"])
  s0 --> j0
  j0 --> t0
  t0 -->|window 7 d, hold| j1
  t1 -.->|previous| j1
  j1 --> t1"""
GRAPHVIZ = r"""digraph epochs {
  rankdir=LR;
  s0 [shape=cylinder, label="feed\nfiles"];
  j0 [shape=box, label="load \"all\" #1\n0 0 * * * UTC"];
  j1 [shape=box, label="count\n0 0 * * * UTC"];
  t0 [shape=ellipse, label="raw\nincremental"];
  t1 [shape=ellipse, label="totals\nfull"];
  s0 -> j0;
  j0 -> t0;
  t0 -> j1 [label="window 7 d, hold"];
  t1 -> j1 [label="previous", style=dashed];
  j1 -> t1;
}"""


def records() -> list[JobRecord]:
    return [declared(job, None, fingerprint(job)) for job in (LOAD, COUNT)]


def test_mermaid_draws_sources_jobs_tables_and_policies() -> None:
    """Section 4: names are labels only, so that none of them is taken for syntax."""
    assert "\n".join(mermaid(records())) == MERMAID


def test_graphviz_draws_the_same() -> None:
    """Section 4: edges to the past are dashed."""
    assert "\n".join(graphviz(records())) == GRAPHVIZ
