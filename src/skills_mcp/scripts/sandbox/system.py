"""What every program of a system reads before it does anything, and no secrets."""

from collections.abc import Iterator
from pathlib import Path

FOLDERS = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/nix/store", "/gnu/store", "/run/current-system", "/home/linuxbrew/.linuxbrew"),
)
"""Programs and their libraries, wherever distributions keep them."""

SETTINGS = (
    # The loader, and which of several programs a name means.
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "alternatives"),
    # Names of users, hosts, services, places.
    *("passwd", "group", "nsswitch.conf", "hosts", "host.conf", "resolv.conf"),
    *("gai.conf", "services", "protocols", "localtime", "timezone", "locale.alias"),
    # Which certificates to trust; their private keys lie beside them.
    *("ssl/certs", "ssl/openssl.cnf", "ssl/cert.pem", "pki/tls/certs"),
    *("pki/tls/cert.pem", "pki/ca-trust", "ca-certificates", "crypto-policies"),
    *("os-release", "mime.types", "magic", "terminfo", "fonts", "perl"),
    "java-*-openjdk",  # a part of the program, which only Debian keeps here
)
"""The part of /etc that holds neither keys nor passwords."""


def find_folders() -> Iterator[Path]:
    """Yield the folders of the system that there are; some may be links."""
    return (folder for folder in map(Path, FOLDERS) if folder.exists())


def find_files() -> Iterator[Path]:
    """Yield the files and folders of /etc that there are."""
    etc = Path("/etc")
    return (file for name in SETTINGS for file in etc.glob(name) if file.exists())


def is_in_system(path: Path) -> bool:
    """Whether a path lies in a folder that every run may read."""
    return any(path.is_relative_to(folder) for folder in FOLDERS)
