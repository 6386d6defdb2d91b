"""Jars of Hadoop's mini cluster that are fetched once, for the test on YARN."""

from __future__ import annotations

import functools
from pathlib import Path

from tests.services.iceberg_runtime import fetched

PINS = {
    "HADOOP_MINICLUSTER": "hadoop-client-minicluster-*.jar",
    "JUNIT": "junit-*.jar",
    "BOUNCY_PROVIDER": "bcprov-jdk18on-*.jar",
    "BOUNCY_PKIX": "bcpkix-jdk18on-*.jar",
    "BOUNCY_UTIL": "bcutil-jdk18on-*.jar",
    "JAXB_API": "jaxb-api-*.jar",
    "JAXB_IMPL": "jaxb-impl-*.jar",
    "ACTIVATION": "activation-*.jar",
}


@functools.cache
def jars() -> tuple[Path, ...] | None:
    """Return the jars of YARN's servers that Spark lacks, 50 MB; None where Maven Central does not answer."""
    found = [fetched(pin, name) for pin, name in PINS.items()]
    return tuple(jar for jar in found if jar is not None) if all(found) else None
