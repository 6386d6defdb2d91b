"""Google's object store, opened by Arrow with the settings of the process's environment.

Arrow opens the store without asking for credentials, and the first request then fails after minutes. So the settings
are looked at first, which needs no Arrow: locations are parsed where it is not imported.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider.domain.errors import InvalidInput

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

GOOGLE_SCHEMES = frozenset({"gs"})

_RETRY = timedelta(seconds=60)
_PRODUCT = Path("/sys/class/dmi/id/product_name")
"""Name of the machine's kind: Google's machines give credentials to their processes."""


def check(uri: str) -> None:
    """Refuse a store for which this process has no settings; asks no server.

    :raises InvalidInput: no credentials; no message holds one.
    """
    scheme, _, rest = uri.partition("://")
    if scheme in GOOGLE_SCHEMES:
        _google(f"{scheme}://{rest.partition('/')[0]}/")


def open_cloud(root: str) -> FileSystem:
    """Open the store of *root*.

    :raises InvalidInput: no credentials.
    """
    import pyarrow.fs as pafs

    return pafs.GcsFileSystem(retry_time_limit=_RETRY, **_google(root))


def _google(root: str) -> dict[str, Any]:
    """Return Arrow's options for Google's store."""
    emulator = os.environ.get("STORAGE_EMULATOR_HOST")
    if emulator:
        parts = urlsplit(emulator if "://" in emulator else f"http://{emulator}")
        return {"anonymous": True, "scheme": parts.scheme, "endpoint_override": parts.netloc}
    named = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    if named:
        if not Path(named).is_file():
            raise InvalidInput(
                field="GOOGLE_APPLICATION_CREDENTIALS",
                value=named,
                expected="a file with credentials of Google's",
                next_step="set it, in the environment of this process, to a file that this user can read.",
            )
        return {}
    login = Path(os.environ.get("HOME", "/"), ".config/gcloud/application_default_credentials.json")
    if not login.is_file() and not _is_googles_machine():
        raise _no_credentials(root, "set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account")
    return {}


def _is_googles_machine() -> bool:
    try:
        return _PRODUCT.read_text().startswith("Google")
    except OSError:
        return False


def _no_credentials(root: str, how: str) -> InvalidInput:
    return InvalidInput(
        field="warehouse",
        value=root,
        expected="a store whose credentials this process's environment names",
        next_step=f"{how}, in the environment of Airflow's components and of Spark's workers.",
    )
