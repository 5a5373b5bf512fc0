"""Loopback addresses: reachable from this machine only."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a host name or address, without a port, is a loopback one."""
    bare = host.removeprefix("[").removesuffix("]")
    if bare.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False
