"""The profile of Seatbelt, the sandbox of macOS, and the words before a command.

`sandbox-exec` is a part of macOS.  It gives up everything that a profile does not
allow, and becomes the command; every child keeps the profile.

Rule: no path is a part of the profile.  Each is a parameter (`-DNAME=path`), so no
character in a name can end a rule.  The kernel compares paths without links, and of two
rules the last one holds.
Source: sandbox-exec(1), and Apple's own profiles in /System/Library/Sandbox/Profiles.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from skills_mcp.scripts.execution import Grants
from skills_mcp.scripts.sandbox.programs import find_system_files, find_system_folders

SANDBOX_EXEC = Path("/usr/bin/sandbox-exec")
"""Never looked for in PATH, where anyone could put another one."""

_HOME = "HOME"

# The services of launchd that start programs, hold keys or read settings stay closed:
# one of them would do outside what is forbidden inside.
_BASE = """\
(version 1)
(deny default)
(deny process-info*)
(deny nvram*)

; Processes of this run, and no others.
(allow process-fork)
(allow process-exec)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))

; What the machine is. Arguments and variables of other processes have another name.
(allow sysctl-read
  (sysctl-name-prefix "hw.")
  (sysctl-name-prefix "machdep.cpu.")
  (sysctl-name "kern.argmax")
  (sysctl-name "kern.hostname")
  (sysctl-name "kern.maxfilesperproc")
  (sysctl-name "kern.maxproc")
  (sysctl-name "kern.ngroups")
  (sysctl-name "kern.osproductversion")
  (sysctl-name "kern.osrelease")
  (sysctl-name "kern.ostype")
  (sysctl-name "kern.osvariant_status")
  (sysctl-name "kern.osversion")
  (sysctl-name "kern.secure_kernel")
  (sysctl-name "kern.usrstack64")
  (sysctl-name "kern.version")
  (sysctl-name "sysctl.proc_cputype")
  (sysctl-name "vm.loadavg"))

; The names of users and groups.
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))

; Whether a file exists: without it no path can be followed.
(allow file-read-metadata file-test-existence)
(allow file-read-data (literal "/"))

; Devices without a user's data, and descriptors that are open anyway.
(allow file-read* (literal "/dev/random") (literal "/dev/urandom"))
(allow file-read* file-write-data file-ioctl
  (literal "/dev/null") (literal "/dev/zero") (literal "/dev/dtracehelper"))
(allow file-read-data file-write-data (subpath "/dev/fd"))

; Which shell /bin/sh is, and which developer tools are meant.
(allow file-read* (subpath "/private/var/select"))
(allow file-read* (literal "/private/var/db/xcode_select_link"))
(allow file-read* (subpath "/private/var/db/timezone"))
"""

_NETWORK = """
; Addresses of the internet, their names and certificates. The keychain stays closed.
(allow network-outbound (remote ip))
(allow network-inbound (local ip))
(allow network-bind (local ip))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
(allow file-read* (literal "/private/var/run/resolv.conf"))
(allow system-socket (require-all (socket-domain AF_SYSTEM) (socket-protocol 2)))
(allow sysctl-read (sysctl-name-prefix "net.routetable"))
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.networkd")
  (global-name "com.apple.ocspd")
  (global-name "com.apple.trustd")
  (global-name "com.apple.trustd.agent"))
"""

# A second name of a file would lie where writing is allowed.
_LAST = "\n(deny file-link)\n"


def derive_seatbelt(grants: Grants) -> tuple[str, ...]:
    """Return the words that stand before those of a command."""
    system = _without_links((*find_system_folders(), *find_system_files()))
    readable = _without_links(grants.readable)
    writable = _without_links(grants.writable)
    places = {
        **_name("SYSTEM", system),
        **_name("READABLE", readable),
        **_name("WRITABLE", writable),
        _HOME: os.path.realpath(grants.home),
    }
    given = (f"-D{name}={path}" for name, path in places.items())
    profile = compose_profile(places, has_network=grants.network)
    return (str(SANDBOX_EXEC), "-p", profile, *given, "--")


def compose_profile(places: dict[str, str], *, has_network: bool) -> str:
    """Return the text of a profile, in which the places have their names only.

    Args:
        places: Paths by the names of their parameters, as `derive_seatbelt` has them.
        has_network: Whether there is a network.
    """
    rules = "\n".join(_compose_rules(places))
    return f"{_BASE}{_NETWORK if has_network else ''}\n{rules}\n{_LAST}"


def _compose_rules(places: dict[str, str]) -> Iterator[str]:
    """Yield the rules for the places, the deciding ones last."""
    readable = [name for name in places if name.startswith(("SYSTEM", "READABLE"))]
    writable = [name for name in places if name.startswith("WRITABLE")]
    for name in readable:
        yield f"(allow file-read* {_below(name)})"
    for name in writable:
        yield f"(allow file-read* file-write* {_below(name)})"
    for inner in readable:
        # What is granted for reading stays as it is in a folder to write into.
        if any(_is_below(places[inner], places[outer]) for outer in writable):
            yield f"(deny file-write* {_below(inner)})"
    yield f"(allow file-read* file-write* {_below(_HOME)})"
    # The only sockets with a path.
    yield f"(allow network-bind (local unix-socket {_below(_HOME)}))"
    yield f"(allow network-outbound (remote unix-socket {_below(_HOME)}))"


def _below(name: str) -> str:
    """Return the filter of a file, or of a folder and all that lies in it."""
    return f'(subpath (param "{name}"))'


def _is_below(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)


def _without_links(paths: Iterable[Path]) -> list[str]:
    return list(dict.fromkeys(os.path.realpath(path) for path in paths))


def _name(kind: str, paths: list[str]) -> dict[str, str]:
    return {f"{kind}_{number}": path for number, path in enumerate(paths)}
