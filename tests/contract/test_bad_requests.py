"""Requests with values that nobody means, against a real store: a typed error each, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_provider.domain.epoch import Owner
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.records import Kind
from airflow_provider.domain.topology import EpochJob, EpochTable
from airflow_provider.spark.epoch_run import epoch_run
from airflow_provider.testing.local_epochs import LocalEpochs
from tests.hostile import TEXTS, refused

pytest_plugins = ["airflow_provider.testing.pytest_plugin"]

T = EpochTable("t")
J = EpochJob("j", outputs=[T], cadence="@daily")
DAY = Interval(datetime(2024, 5, 3, tzinfo=UTC), datetime(2024, 5, 4, tzinfo=UTC))
BARRIER = datetime(2024, 5, 2, tzinfo=UTC)
ME = Owner(dag_id="dag", run_id="run")

Call = Callable[[LocalEpochs, Any], object]


def skip(epochs: LocalEpochs, **given: Any) -> object:
    named = {"domain": "default", "job": "j", "span": DAY, "reason": "gone", "by": "ada", **given}
    return epochs.service.coordinator.skip(**named)


def retire(epochs: LocalEpochs, **given: Any) -> object:
    named = {"domain": "default", "job": "j", "reason": "gone", "by": "ada", **given}
    return epochs.service.coordinator.retire(**named)


def cut(epochs: LocalEpochs, **given: Any) -> object:
    return epochs.service.cuts.cut(**{"domain": "default", "tables": ["t"], **given})


def lease(epochs: LocalEpochs, **given: Any) -> object:
    return epochs.service.leases.cut(
        **{"domain": "default", "tables": ["t"], "name": "n", "owner": "me", **given}
    )


def run(epochs: LocalEpochs, **given: Any) -> None:
    with epoch_run(**{"job": J, "interval": DAY, "local": epochs, **given}):
        raise AssertionError


CALLS: dict[str, tuple[Call, Iterable[str]]] = {
    "skip: domain": (lambda epochs, value: skip(epochs, domain=value), []),
    "skip: job": (lambda epochs, value: skip(epochs, job=value), []),
    "skip: span": (lambda epochs, value: skip(epochs, span=value), []),
    "retire: domain": (lambda epochs, value: retire(epochs, domain=value), []),
    "retire: job": (lambda epochs, value: retire(epochs, job=value), []),
    "revive: domain": (lambda epochs, value: epochs.service.coordinator.revive(value, "j"), []),
    "revive: job": (lambda epochs, value: epochs.service.coordinator.revive("default", value), []),
    "register: job": (lambda epochs, value: epochs.service.coordinator.register(value), []),
    "begin: job": (lambda epochs, value: epochs.service.coordinator.begin(value, DAY, ME), []),
    "begin: interval": (lambda epochs, value: epochs.service.coordinator.begin(J, value, ME), []),
    "begin: owner": (lambda epochs, value: epochs.service.coordinator.begin(J, DAY, value), []),
    "epoch_run: job": (lambda epochs, value: run(epochs, job=value), []),
    "epoch_run: interval": (lambda epochs, value: run(epochs, interval=value), []),
    "cut: domain": (lambda epochs, value: cut(epochs, domain=value), []),
    "cut: tables": (lambda epochs, value: cut(epochs, tables=value), []),
    "cut: table": (lambda epochs, value: cut(epochs, tables=[value]), []),
    "cut: at": (lambda epochs, value: cut(epochs, at=value), ["nothing"]),
    "cut: level": (lambda epochs, value: cut(epochs, level=value), ["nothing"]),
    "cut: align": (lambda epochs, value: cut(epochs, align=value), []),
    "cut: max_lag": (
        lambda epochs, value: cut(epochs, align="floor", max_lag=value),
        ["a duration"],
    ),
    "cut: consistency": (lambda epochs, value: cut(epochs, consistency=value), ["nothing"]),
    "cut: session": (lambda epochs, value: cut(epochs, session=value), ["nothing"]),
    "lease: name": (lambda epochs, value: lease(epochs, name=value, tables=["u"]), []),
    "lease: owner": (lambda epochs, value: lease(epochs, owner=value, tables=["u"]), []),
    "lease: ttl": (lambda epochs, value: lease(epochs, ttl=value, tables=["t", "u"]), []),
    "withdraw: table": (
        lambda epochs, value: epochs.service.retention.withdraw("default", value, BARRIER),
        [],
    ),
    "withdraw: barrier": (lambda epochs, value: epochs.service.retention.withdraw("default", "t", value), []),
}


@pytest.mark.parametrize("what", sorted(CALLS))
def test_a_request_that_nobody_means_writes_nothing(local_epochs: LocalEpochs, what: str) -> None:
    """R5, R7, R23: in each argument of a request."""
    local_epochs.commit(J, "2024-05-01", {T: [{"a": 1}]})
    before = written(local_epochs)
    call, good = CALLS[what]
    refused(lambda value: call(local_epochs, value), good)
    assert written(local_epochs) == before


@pytest.mark.parametrize("what", ["reason", "by"])
@pytest.mark.parametrize("act", [skip, retire])
def test_who_ends_something_says_it_in_words_that_can_be_kept(
    local_epochs: LocalEpochs, act: Callable[..., object], what: str
) -> None:
    """R5, R7: what is no text, blank, or more than a store keeps."""
    local_epochs.commit(J, "2024-05-01", {T: [{"a": 1}]})
    refused(lambda value: act(local_epochs, **{what: value}), TEXTS)


def written(epochs: LocalEpochs) -> tuple[object, ...]:
    """Every record of the store, with its version."""
    store = epochs.service.store
    found = [one for kind in Kind for one in store.scan(J.domain, kind, "")]
    return (store.read(J.domain, []).head, *sorted((str(one.key), one.version) for one in found))
