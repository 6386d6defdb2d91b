"""Requests with values that no user means, against a real store: a typed error each, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_provider.coordination.reading.change_feed import Position
from airflow_provider.coordination.reading.queries import queries
from airflow_provider.coordination.upkeep.explain import explain
from airflow_provider.domain.errors import InvalidInput
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.lease import Lease
from airflow_provider.domain.owner import Owner
from airflow_provider.domain.records import Kind
from airflow_provider.domain.session import Session
from airflow_provider.domain.topology import Job, Table
from airflow_provider.spark.epoch_run import epoch_run
from airflow_provider.testing.local_epochs import LocalEpochs
from tests.hostile import NAMES, TEXTS, refused

pytest_plugins = ["airflow_provider.testing.pytest_plugin"]

T = Table("t")
J = Job("j", outputs=[T], cadence="@daily")
DAY = Interval(datetime(2024, 5, 3, tzinfo=UTC), datetime(2024, 5, 4, tzinfo=UTC))
FUTURE = Interval(datetime(9024, 5, 3, tzinfo=UTC), datetime(9024, 5, 4, tzinfo=UTC))
BARRIER = datetime(2024, 5, 2, tzinfo=UTC)
ME = Owner(dag_id="dag", run_id="run")

Call = Callable[[LocalEpochs, Any], object]


def skip(epochs: LocalEpochs, **given: Any) -> object:
    named = {"domain": "default", "job": "j", "span": DAY, "reason": "gone", "by": "ada", **given}
    return epochs.service.skip(**named)


def retire(epochs: LocalEpochs, **given: Any) -> object:
    named = {"domain": "default", "job": "j", "reason": "gone", "by": "ada", **given}
    return epochs.service.retire(**named)


def bind(epochs: LocalEpochs, **given: Any) -> object:
    named = {
        "domain": "default",
        "source": "r",
        "interval": "2024-05-03",
        "reason": "late",
        "by": "ada",
        **given,
    }
    return epochs.service.bind(**named)


def cut(epochs: LocalEpochs, **given: Any) -> object:
    return epochs.service.cuts.cut(**{"domain": "default", "tables": ["t"], **given})


def lease(epochs: LocalEpochs, **given: Any) -> object:
    return epochs.service.leases.cut(
        **{"domain": "default", "tables": ["t"], "name": "n", "owner": "me", **given}
    )


def held(epochs: LocalEpochs) -> Lease:
    found = epochs.service.leases.find("default", "held")
    return found or epochs.service.leases.cut("default", ["t"], name="held", owner="me")


def claim(epochs: LocalEpochs, **given: Any) -> object:
    cut = epochs.service.cuts.cut("default", ["t"])
    return epochs.service.leases.acquire(cut, **{"name": "n", "owner": "me", **given})


def run(epochs: LocalEpochs, **given: Any) -> None:
    with epoch_run(**{"job": J, "interval": DAY, "local": epochs, **given}):
        raise AssertionError


def asked(epochs: LocalEpochs, **given: Any) -> object:
    """Begin as an owner of whom one thing is odd; good text of an id is let through to what refuses the epoch."""
    owner = Owner(**{"dag_id": "dag", "run_id": "run", **given})
    return epochs.service.begin(J, FUTURE, owner)


CALLS: dict[str, tuple[Call, Iterable[str]]] = {
    "skip: domain": (lambda epochs, value: skip(epochs, domain=value), []),
    "skip: job": (lambda epochs, value: skip(epochs, job=value), []),
    "skip: span": (lambda epochs, value: skip(epochs, span=value), []),
    "retire: domain": (lambda epochs, value: retire(epochs, domain=value), []),
    "retire: job": (lambda epochs, value: retire(epochs, job=value), []),
    "revive: domain": (lambda epochs, value: epochs.service.revive(value, "j"), []),
    "revive: job": (lambda epochs, value: epochs.service.revive("default", value), []),
    "register: job": (lambda epochs, value: epochs.service.register(value), []),
    "begin: job": (lambda epochs, value: epochs.service.begin(value, DAY, ME), []),
    "begin: interval": (lambda epochs, value: epochs.service.begin(J, value, ME), []),
    "begin: owner": (lambda epochs, value: epochs.service.begin(J, DAY, value), []),
    "begin: dag_id": (lambda epochs, value: asked(epochs, dag_id=value), []),
    "begin: run_id": (lambda epochs, value: asked(epochs, run_id=value), []),
    "begin: generation": (lambda epochs, value: asked(epochs, generation=value), []),
    "begin: try_number": (lambda epochs, value: asked(epochs, try_number=value), []),
    "begin: format": (
        lambda epochs, value: epochs.service.begin(
            Job("other", outputs=[Table("u", format=value)], cadence="@daily"), DAY, ME
        ),
        [],
    ),
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
    "lease: all": (lambda epochs, value: epochs.service.leases.all(value), NAMES),
    "lease: find": (lambda epochs, value: epochs.service.leases.find("default", value), NAMES),
    "begin: participants": (
        lambda epochs, value: epochs.service.begin(J, DAY, ME, participants=value),
        [],
    ),
    "bind: domain": (lambda epochs, value: bind(epochs, domain=value), []),
    "bind: source": (lambda epochs, value: bind(epochs, source=value), []),
    "recover: domain": (lambda epochs, value: epochs.service.recover(value), []),
    "explain: job": (lambda epochs, value: explain(epochs.service.store, "default", value), []),
    "explain: domain": (lambda epochs, value: explain(epochs.service.store, value, "j"), []),
    "queries: engine": (
        lambda epochs, value: queries(epochs.service.cuts, epochs.service.cuts.cut("default", ["t"]), value),
        [],
    ),
    "session: text": (lambda _epochs, value: Session.parse(value), []),
    "position: text": (lambda _epochs, value: Position.parsed(value), []),
    "session: domain": (lambda _epochs, value: Session.of(value), NAMES),
    "vacuum: domain": (lambda epochs, value: epochs.service.retention.vacuum(value), NAMES),
    "expire: table": (
        lambda epochs, value: epochs.service.retention.expire("default", value, BARRIER),
        [],
    ),
    "expire: barrier": (lambda epochs, value: epochs.service.retention.expire("default", "t", value), []),
}


@pytest.mark.parametrize("what", sorted(CALLS))
def test_invalid_request_writes_nothing(local_epochs: LocalEpochs, what: str) -> None:
    """R5, R7, R23: in each argument of a request."""
    local_epochs.commit(J, "2024-05-01", {T: [{"a": 1}]})
    before = written(local_epochs)
    call, good = CALLS[what]
    refused(lambda value: call(local_epochs, value), good)
    assert written(local_epochs) == before


@pytest.mark.parametrize("what", ["reason", "by"])
@pytest.mark.parametrize("act", [skip, retire])
def test_reason_and_author_must_be_storable_text(
    local_epochs: LocalEpochs, act: Callable[..., object], what: str
) -> None:
    """R5, R7: what is no text, blank, or more than a store keeps."""
    local_epochs.commit(J, "2024-05-01", {T: [{"a": 1}]})
    refused(lambda value: act(local_epochs, **{what: value}), TEXTS)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 20_000,
        *(
            f'{{"domain": "default", "incarnation": {incarnation}, "seen": {{"t": [{number}, "{time}"]}}}}'
            for incarnation, number, time in (
                ('"x"', "1e400", "2024-05-01T00:00:00+00:00"),
                ('"x"', "NaN", "2024-05-01T00:00:00+00:00"),
                ('"x"', "1.5", "2024-05-01T00:00:00+00:00"),
                ('"x"', "true", "2024-05-01T00:00:00+00:00"),
                ('"x"', '"1"', "2024-05-01T00:00:00+00:00"),
                ('"x"', "9" * 5000, "2024-05-01T00:00:00+00:00"),
                ("null", "1", "2024-05-01T00:00:00+00:00"),
                ('"x"', "1", "2024-05-01T00:00:00"),
                ('"x"', "1", "0001-01-01T00:00:00+14:00"),
            )
        ),
    ],
)
def test_json_that_no_session_wrote_is_refused(text: str) -> None:
    """R20: nested without end, numbers without end, times that are none."""
    with pytest.raises(InvalidInput) as told:
        Session.parse(text)
    assert len(str(told.value)) < 1000


CLAIMS: dict[str, tuple[Call, Iterable[str]]] = {
    "name": (lambda epochs, value: claim(epochs, name=value), NAMES),
    "owner": (lambda epochs, value: claim(epochs, name="other", owner=value), ["a percent sign"]),
    "ttl": (
        lambda epochs, value: epochs.service.leases.renew(held(epochs), value),
        ["nothing", "a duration"],
    ),
    "released": (lambda epochs, value: epochs.service.leases.release(held(epochs), [value]), NAMES),
}


@pytest.mark.parametrize("what", sorted(CLAIMS))
def test_a_claim_is_made_renewed_and_given_up_in_good_words(local_epochs: LocalEpochs, what: str) -> None:
    """R23: a table that a lease does not hold, or no more, may be given up again."""
    local_epochs.commit(J, "2024-05-01", {T: [{"a": 1}]})
    call, good = CLAIMS[what]
    refused(lambda value: call(local_epochs, value), good)


def written(epochs: LocalEpochs) -> tuple[object, ...]:
    """Every record of the store, with its version."""
    store = epochs.service.store
    found = [stamped for kind in Kind for stamped in store.scan(J.domain, kind, "")]
    return (store.read(J.domain, []).head, *sorted((str(stamped.key), stamped.version) for stamped in found))
