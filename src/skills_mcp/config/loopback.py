"""Which hosts are the loopback's own: only this machine reaches them."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a name or an address, without a port, is one of the loopback."""
    bare = host.removeprefix("[").removesuffix("]")
    if bare.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False
