"""Optional libraries, imported by the calls that need them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from airflow_provider.domain.errors import MissingLibrary

_COMMANDS = {
    "airflow": "pip install 'apache-airflow>=3.1,<3.4'",
    "duckdb": "pip install 'airflow-provider-epochs[duckdb]', in a checkout pip install -c constraints.txt '.[duckdb]'",
    "pandas": "pip install 'pandas>=2.2,<3'",
    "polars": "pip install polars",
}
"""Command that installs each library, for the next step of an error."""


def library(name: str, call: str) -> Any:
    """Import *name*, which *call* needs.

    :raises MissingLibrary: it is not installed; the next step is the pip command.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:  # the library is installed, and lacks one of its own, which the error names
            raise
        raise MissingLibrary(
            f"{call} needs the library {name!r}, which is not installed here.",
            next_step=f"{_COMMANDS[name]}.",
            library=name,
        ) from error
