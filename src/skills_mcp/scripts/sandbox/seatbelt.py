"""Seatbelt tier."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from skills_mcp.scripts.execution import Grants
from skills_mcp.scripts.sandbox.programs import find_system_files, find_system_folders

SANDBOX_EXEC = Path("/usr/bin/sandbox-exec")
"""Never resolved in PATH, open to replacement."""

_HOME_PARAMETER = "HOME"

# The services of launchd that start programs, hold keys or read settings stay closed:
# one of them would do outside what is forbidden inside.
_BASE_PROFILE = """\
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

_NETWORK_RULES = """
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
_FINAL_RULES = "\n(deny file-link)\n"


def derive_seatbelt_prefix(grants: Grants) -> tuple[str, ...]:
    system = _resolve_all((*find_system_folders(), *find_system_files()))
    readable = _resolve_all(grants.readable)
    writable = _resolve_all(grants.writable)
    parameters = {
        **_name_parameters("SYSTEM", system),
        **_name_parameters("READABLE", readable),
        **_name_parameters("WRITABLE", writable),
        _HOME_PARAMETER: os.path.realpath(grants.home),
    }
    definitions = (f"-D{name}={path}" for name, path in parameters.items())
    profile = compose_seatbelt_profile(parameters, has_network=grants.network)
    return (str(SANDBOX_EXEC), "-p", profile, *definitions, "--")


def compose_seatbelt_profile(paths: dict[str, str], *, has_network: bool) -> str:
    """Seatbelt profile of a run.

    No path is a part of the profile.  Each is a parameter (`-DNAME=path`), so no
    character
    in a name can end a rule.  The kernel compares paths without links, and the last
    matching rule wins.  Source: Apple's own profiles in
    /System/Library/Sandbox/Profiles.
    """
    rules = "\n".join(_compose_rules(paths))
    return f"{_BASE_PROFILE}{_NETWORK_RULES if has_network else ''}\n{rules}\n{_FINAL_RULES}"


def _compose_rules(paths: dict[str, str]) -> Iterator[str]:
    readable = [name for name in paths if name.startswith(("SYSTEM", "READABLE"))]
    writable = [name for name in paths if name.startswith("WRITABLE")]
    for name in readable:
        yield f"(allow file-read* {_subpath_filter(name)})"
    for name in writable:
        yield f"(allow file-read* file-write* {_subpath_filter(name)})"
    for inner in readable:
        # What is granted for reading stays as it is in a folder to write into.
        if any(_is_inside(paths[inner], paths[outer]) for outer in writable):
            yield f"(deny file-write* {_subpath_filter(inner)})"
    yield f"(allow file-read* file-write* {_subpath_filter(_HOME_PARAMETER)})"
    # The only sockets with a path.
    yield f"(allow network-bind (local unix-socket {_subpath_filter(_HOME_PARAMETER)}))"
    yield f"(allow network-outbound (remote unix-socket {_subpath_filter(_HOME_PARAMETER)}))"


def _subpath_filter(name: str) -> str:
    return f'(subpath (param "{name}"))'


def _is_inside(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)


def _resolve_all(paths: Iterable[Path]) -> list[str]:
    return list(dict.fromkeys(os.path.realpath(path) for path in paths))


def _name_parameters(kind: str, paths: list[str]) -> dict[str, str]:
    return {f"{kind}_{number}": path for number, path in enumerate(paths)}
