"""Next steps of errors in the terminal: commands that can be typed as they are."""

from __future__ import annotations

from argparse import Namespace

import pytest

from airflow_provider.cli.command import addressed

TOLD = "`airflow epochs restate diff ten`, then `airflow epochs restate status ten`; or `airflow epochs db status`."


@pytest.mark.parametrize(
    ("domain", "conn_id", "added"),
    [
        ("default", None, ""),
        ("nyc", None, " --domain nyc"),
        ("nyc", "other_store", " --domain nyc --conn-id other_store"),
        ("New York", None, " --domain 'New York'"),
        ("it's", "a store", """ --domain 'it'"'"'s' --conn-id 'a store'"""),
        ("`nyc`", None, ""),
    ],
)
def test_commands_are_for_the_domain_and_the_connection_of_the_one_that_failed(
    domain: str, conn_id: str | None, added: str
) -> None:
    told = addressed(TOLD, Namespace(domain=domain, conn_id=conn_id))
    assert told == (
        f"`airflow epochs restate diff ten{added}`, then `airflow epochs restate status ten{added}`; "
        "or `airflow epochs db status`."
    )


def test_a_command_that_names_its_domain_is_left_as_it_is() -> None:
    told = "`airflow epochs lease list --domain other`"
    assert addressed(told, Namespace(domain="nyc", conn_id=None)) == told
    assert addressed(told, Namespace()) == told
