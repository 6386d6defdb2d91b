"""Which hosts are this one."""

from __future__ import annotations

import ipaddress


def is_this_host(host: str) -> bool:
    """Whether what is sent to *host* stays on this one, judged without asking a name server.

    :param host: a name or an address, without a port; IPv6 with or without brackets.
    """
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
