"""Recognize addresses of this host."""

from __future__ import annotations

import ipaddress


def is_this_host(host: str) -> bool:
    """Return whether a message to *host* stays on this host; never asks a name server.

    :param host: a name or an address, without a port; IPv6 with or without brackets.
    """
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
