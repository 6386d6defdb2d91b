"""Modules that DAG files import, loaded once by Airflow's DAG processor, which forks a process for each parsing."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence

from airflow.configuration import conf

COMPONENT = "dag-processor"

log = logging.getLogger(__name__)


def preload(arguments: Sequence[str]) -> None:
    """Load operators, sensors, triggers and declarations if this is the DAG processor.

    Airflow itself does this with modules named ``airflow.…`` that a DAG file imports, and
    ``[dag_processor] parsing_pre_import_modules`` turns both off. Not in the scheduler, whose forks are tasks:
    docs/decisions/light-parsing.md.

    :param arguments: the command line, as ``sys.argv``.
    """
    if COMPONENT not in arguments[1:2]:
        return
    if not conf.getboolean("dag_processor", "parsing_pre_import_modules", fallback=True):
        return
    for module in modules():
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001 - DAG files that import it fail, and tell the whole of it
            log.warning("Module %s cannot be loaded ahead of DAG files: %s", module, error)


def modules() -> list[str]:
    """Return the modules of operators, sensors and triggers, and those of declarations."""
    from airflow_provider import _HOMES
    from airflow_provider.provider_info import get_provider_info

    told = get_provider_info()
    kinds = ("operators", "sensors", "triggers")
    of_airflow = [module for kind in kinds for module in told[kind][0]["python-modules"]]
    declarations = {f"airflow_provider.{home}" for home in _HOMES.values() if home.startswith("domain.")}
    return [*of_airflow, *sorted(declarations)]
