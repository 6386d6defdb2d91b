"""Errors as callers read them: attributes that the class declares, in this process and in another one."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest

from airflow_provider.domain.checks import Finding
from airflow_provider.domain.dependent import Dependent
from airflow_provider.domain.errors import (
    Conflict,
    EpochBusy,
    EpochError,
    FinalError,
    InvalidInput,
    NotReady,
    OutcomeUnknown,
    RetryableError,
    StoreUnavailable,
    UnknownName,
)
from airflow_provider.domain.foreign import Foreign
from airflow_provider.domain.identifiers import DomainName, JobName, TableName
from airflow_provider.domain.interval import Interval
from airflow_provider.domain.missing import Missing
from airflow_provider.domain.owner import Owner
from airflow_provider.stores.base import SameStore
from tests.architecture.sources import ROOT, modules

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
SPAN = Interval(NOON, NOON + timedelta(hours=1))
OF_ATTRIBUTES: dict[str, Any] = {
    "missing": (Missing(name="t", reason="its watermark is behind", wanted=NOON),),
    "readers": (Dependent(job=JobName("r"), interval=SPAN, tables=(TableName("t"),)),),
    "findings": (Finding(check="not null", table="t", figure="2 rows"),),
    "holder": Owner(dag_id="d", run_id="r"),
    "by": Owner(dag_id="d", run_id="r"),
    "until": NOON,
    "kept": (NOON,),
    "interval": SPAN,
    "requirement": SameStore("incarnation"),
    "foreign": Foreign(operations=("append",)),
    "key": (DomainName("d"), "topology", "", "item"),
}
"""A value of the attributes that are no text; others get their own name."""


def _kinds(source: type[EpochError] = EpochError) -> Iterator[type[EpochError]]:
    yield source
    for kind in source.__subclasses__():
        yield from _kinds(kind)


def _all() -> list[type[EpochError]]:
    """Every class of the package, wherever it is."""
    for name in modules(
        "domain", "stores", "tables", "sources", "coordination", "spark", "client", "plugins"
    ):
        import_module(name)
    return [kind for kind in dict.fromkeys(_kinds()) if kind.__module__.startswith("airflow_provider.")]


KINDS = _all()
INTERNAL = {"RequirementFailed", "PageBusy", "NotAllowed"}
"""Errors that no caller of the package's functions gets."""


def test_the_protocol_lists_every_error_by_its_family() -> None:
    section = (ROOT / "docs" / "protocol.md").read_text().partition("\n## 10. ")[2].partition("\n## ")[0]
    families = dict(re.findall(r"\*(retry|stop|ask)\* \((.+?)\)", section, re.DOTALL))
    listed = {family: set(re.findall("`(.+?)`", names)) for family, names in families.items()}
    for family, root in (("retry", RetryableError), ("stop", FinalError), ("ask", OutcomeUnknown)):
        kinds = {kind.__name__ for kind in KINDS if issubclass(kind, root)} - INTERNAL
        assert listed[family] == kinds - {"RetryableError", "FinalError"}


def _declared(kind: type[EpochError]) -> dict[str, Any]:
    """The attributes that *kind* declares, each with a value that is not its default."""
    names = [entry.name for entry in fields(kind) if entry.name not in ("message", "next_step")]
    return {name: OF_ATTRIBUTES.get(name, name) for name in names}


def _sent(error: EpochError) -> EpochError:
    arrived: EpochError = pickle.loads(pickle.dumps(error))  # noqa: S301 - the test's own bytes
    return arrived


@pytest.mark.parametrize("kind", KINDS)
def test_errors_survive_pickling_to_another_process(kind: type[EpochError]) -> None:
    """Spark's workers and Airflow's triggerer hand errors on: message, next step, attributes and kind stay."""
    given = _declared(kind)
    error = kind("t: it is not so.", next_step="make it so.", **given)
    arrived = _sent(error)
    assert type(arrived) is kind
    assert str(arrived) == str(error) == "t: it is not so. Next step: make it so."
    assert (arrived.message, arrived.next_step) == ("t: it is not so.", "make it so.")
    assert arrived.details == error.details == given
    assert {name: getattr(arrived, name) for name in given} == given
    assert arrived.family == kind.family


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_has_the_attributes_that_its_class_declares(kind: type[EpochError]) -> None:
    """Each by its name only, with a type and a line of the docstring; optional ones are no details until given."""
    parameters = list(inspect.signature(kind).parameters.values())
    assert parameters[0].name == "message"
    assert {parameter.kind for parameter in parameters[1:]} == {inspect.Parameter.KEYWORD_ONLY}
    own = {name for name in inspect.get_annotations(kind) if name not in ("family", "message", "_")}
    assert own <= {entry.name for entry in fields(kind)}, "not decorated as a dataclass"
    undocumented = [name for name in own if f":param {name}:" not in str(kind.__doc__)]
    assert undocumented == []
    assert {str(entry.type) for entry in fields(kind)} & {"Any", "object", "dict[str, Any]"} <= (
        {"object"} if kind is InvalidInput else set()
    )
    required = {
        entry.name: OF_ATTRIBUTES.get(entry.name, entry.name)
        for entry in fields(kind)
        if entry.default is MISSING and entry.name not in ("message", "next_step")
    }
    assert kind("t: it is not so.", **required).details == required
    with pytest.raises(TypeError):
        kind("t: it is not so.", **required, unheard_of=1)
    with pytest.raises(AttributeError):
        _ = _sent(kind("t: it is not so.", **required)).unheard_of  # type: ignore[attr-defined]


def test_a_refused_value_makes_its_message() -> None:
    error = _sent(InvalidInput(field="f", value=1, expected="2"))
    assert str(error) == "f: 1 is not accepted; expected 2. Next step: correct f, and try again."
    assert error.details == {"field": "f", "value": 1, "expected": "2"}


def test_details_are_taken_from_values_that_cannot_be_compared() -> None:
    class Hostile:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError

        __hash__ = None  # type: ignore[assignment]

    value = Hostile()
    assert InvalidInput(field="f", value=value, expected="2").details["value"] is value


@pytest.mark.parametrize(
    ("error", "message", "details"),
    [
        (
            Conflict.of_others("job 'j'", "changing the topology", job="j"),
            "job 'j': others kept changing the topology. Next step: try again.",
            {"job": "j"},
        ),
        (
            NotReady.of_source("s", "/in", "nothing has landed", interval=SPAN, next_step="wait."),
            f"source 's' is not ready for {SPAN}: nothing has landed. Next step: wait.",
            {
                "source": "s",
                "interval": SPAN,
                "missing": (Missing(name="/in", reason="nothing has landed", wanted=SPAN.end),),
            },
        ),
        (
            EpochBusy.of_attempt("j [a, b)", job="j", holder=Owner(dag_id="d", run_id="r"), until=NOON),
            (
                "j [a, b) is computed by d/r (generation 0, try 1), whose lock lasts until 2024-01-01T12:00:00+00:00. "
                "Next step: wait for it to end, or stop that run; the lock ends by itself when it is silent."
            ),
            {"job": "j", "holder": Owner(dag_id="d", run_id="r"), "until": NOON},
        ),
        (
            UnknownName.of_job("j", "d"),
            (
                "job 'j' is not registered in domain 'd'. "
                "Next step: see `airflow epochs status`; a job registers when it first runs."
            ),
            {"job": "j", "domain": "d"},
        ),
        (StoreUnavailable("s: no answer."), "s: no answer.", {}),
    ],
)
def test_what_several_places_say_has_the_attributes_too(
    error: EpochError, message: str, details: dict[str, object]
) -> None:
    assert (str(error), error.details) == (message, details)
