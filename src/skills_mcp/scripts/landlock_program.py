"""Program confining itself with Landlock and seccomp, then executing its arguments.

    python -I -S landlock_program.py readable=/usr writable=/tmp/a -- /bin/program argument …

It imports nothing of this package, because it is started for each run, and neither
`typing` nor `json`, which would take longer than all else.  If a step fails, no program
is run, and the exit code is 125.

Source: landlock(7) and seccomp(2); the numbers are those of the kernel's headers.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import NoReturn

FAILED = 125
"""Exit code of env, timeout and docker for their own failures."""

OLDEST_ABI = 3
"""Linux 6.2. Before it, any file writable by the account could be truncated."""

_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # on every architecture

_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read a file, list a folder
_FILE_RIGHTS = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14  # … write, truncate; no device's ioctl
_MAKE_DEVICES = 1 << 6 | 1 << 11
_IOCTL_DEVICE = 1 << 15
_FS_BITS = {3: 15, 4: 15, 5: 16}  # how many rights there are; 16 in all that follow
_TCP = 1 << 0 | 1 << 1  # bind, connect
_SCOPED = 1 << 0 | 1 << 1  # abstract sockets, signals
_TCP_ABI, _SCOPED_ABI = 4, 6

_libc = ctypes.CDLL(None, use_errno=True)


def run_confined(arguments: Sequence[str]) -> NoReturn:
    """Confine this process, and execute the program.

    Raises:
        OSError: This system cannot confine it, or there is no such program.
    """
    if "--" not in arguments[:-1]:
        raise OSError(errno.EINVAL, "no program")
    end = arguments.index("--")
    grants, words = _parse_grants(arguments[:end]), [*arguments[end + 1 :]]
    for capability in range(64):  # only root has any; no more than bubblewrap leaves
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    restrict_paths(grants)
    install_call_filter(has_network=bool(grants["network"]))
    # Git fails on a settings file that exists and may not be read: no tier opens
    # /etc/gitconfig.
    os.environ["GIT_CONFIG_NOSYSTEM"] = "1"
    # A search of PATH would import a module, which cannot be read any more.
    os.execv(words[0], words)  # noqa: S606 - there is no shell on purpose


def _parse_grants(words: Sequence[str]) -> Mapping[str, Sequence[str]]:
    grants: dict[str, list[str]] = {"readable": [], "writable": [], "network": []}
    for word in words:
        kind, _, value = word.partition("=")
        grants[kind].append(value)
    return grants


def restrict_paths(grants: Mapping[str, Sequence[str]]) -> None:
    """Irrevocably drop access to all other paths."""
    abi = _call(_CREATE_RULESET, None, 0, 1)
    if abi < OLDEST_ABI:
        raise OSError(errno.ENOSYS, f"Landlock {OLDEST_ABI} is needed, here is {abi}")
    handled = (1 << _FS_BITS.get(abi, 16)) - 1
    attributes = struct.pack("Q", handled)
    if abi >= _TCP_ABI:
        attributes += struct.pack("Q", 0 if grants["network"] else _TCP)
    if abi >= _SCOPED_ABI:
        attributes += struct.pack("Q", _SCOPED)
    ruleset = _call(_CREATE_RULESET, attributes, len(attributes), 0)
    for path in grants["readable"]:
        _allow_path(ruleset, path, _READ & handled)
    for path in grants["writable"]:
        _allow_path(ruleset, path, handled & ~_MAKE_DEVICES & ~_IOCTL_DEVICE)
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _allow_path(ruleset: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _FILE_RIGHTS
        _call(_ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


# Landlock does not cover UDP, sockets with a path, tracing, shared memory, or what is
# set for another process.  io_uring is refused: what it does for a process, sockets
# too, no filter sees.
_INSPECTED = (
    *("socket", "connect", "socketpair", "clone", "clone3"),
    *("setpriority", "ioprio_set"),
    *("prlimit", "sched_setaffinity", "sched_setscheduler", "sched_setparam"),
    *("sched_setattr", "migrate_pages", "move_pages"),
)
_PROCESS_CALLS = _INSPECTED[7:]
"""Their first argument is a process; 0 is the caller."""

# Numbers of system calls, by machine:
# - architecture: of the machine, as the kernel counts them
# - inspected: with arguments that decide
# - shared: of System V and POSIX, shared with other processes
# - outside: on other processes, and on files not covered by Landlock
# - attributes: extended attributes of files; Landlock has no right for them
# - refused: always
_MACHINES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "x86_64": {
        "architecture": (0xC000003E,),
        "inspected": (41, 42, 53, 56, 435, 141, 251, 302, 203, 144, 142, 314, 256, 279),
        "shared": (29, 30, 31, 64, 65, 66, 220, 68, 69, 70, 71, 240, 241),
        "outside": (
            *(424, 434, 438, 440, 448, 312),  # pidfd_*, process_m*, kcmp
            *(253, 294, 300),  # inotify, fanotify
        ),
        "attributes": (188, 189, 190, 197, 198, 199, 463, 466, 469),
        "refused": (
            *(101, 310, 311, 134),  # ptrace, process_vm_*, uselib
            *(165, 166, 155, 161, 442, 428, 429, 430, 431, 432, 433),  # mounts
            *(272, 308, 248, 249, 250),  # unshare, setns, keys
            *(321, 298, 323, 425, 426, 427),  # bpf, perf, userfaultfd, io_uring
            *(246, 320, 175, 176, 313, 167, 168, 169, 304, 179, 172, 173),  # the kernel
        ),
    },
    "aarch64": {
        "architecture": (0xC00000B7,),
        "inspected": (198, 203, 199, 220, 435, 140, 30, 261, 122, 119, 118, 274, 238, 239),
        "shared": (194, 196, 195, 190, 193, 191, 192, 186, 189, 188, 187, 180, 181),
        "outside": (*(424, 434, 438, 440, 448, 272), *(26, 262)),
        "attributes": (5, 6, 7, 14, 15, 16, 463, 466, 469),
        "refused": (
            *(117, 270, 271),
            *(40, 39, 41, 51, 442, 428, 429, 430, 431, 432, 433),
            *(97, 268, 217, 218, 219),
            *(280, 241, 282, 425, 426, 427),
            *(104, 294, 105, 106, 273, 224, 225, 142, 265, 60),
        ),
    },
}
_PRIO_PROCESS, _IOPRIO_WHO_PROCESS = 0, 1
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_INTERNET = (_AF_INET, _AF_INET6, _AF_NETLINK)  # libc asks netlink for addresses
_SOCK_STREAM, _SOCK_SEQPACKET = 1, 5
_SOCK_TYPE = 0xF  # without SOCK_CLOEXEC and SOCK_NONBLOCK
_CLONE_NEWUSER = 0x10000000
_X32 = 0x40000000  # a second set of numbers for the same calls

_LOAD, _MASK, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW = 0x7FFF0000
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # places in seccomp_data


def install_call_filter(*, has_network: bool) -> None:
    code = compose_call_filter(os.uname().machine, has_network=has_network, has_namespaces=False)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HP", len(code) // 8, ctypes.addressof(buffer))
    _check(_libc.prctl(_PR_SET_SECCOMP, 2, program, 0, 0), "seccomp")


def compose_call_filter(machine: str, *, has_network: bool, has_namespaces: bool) -> bytes:
    """BPF instructions of the seccomp filter, 8 bytes each.

    A filter does not see the path of a socket, so it cannot tell a socket of the run
    from one of another program of the user. With a network there are therefore no Unix
    sockets but pairs; without one, a run can listen and connect to nothing. Other
    socket families do not exist: those of virtual machines (AF_VSOCK) leave each
    namespace.

    Raises:
        NotImplementedError: The call numbers of this architecture are unknown.
    """
    if machine not in _MACHINES:
        raise NotImplementedError(f"no filter of system calls for {machine}")
    steps = _compose_instructions(machine, has_network=has_network, has_namespaces=has_namespaces)
    return b"".join(steps)


def _compose_instructions(
    machine: str, *, has_network: bool, has_namespaces: bool
) -> Iterator[bytes]:
    known = _MACHINES[machine]
    calls = dict(zip(_INSPECTED, known["inspected"], strict=True))
    yield _instruction(_LOAD, _ARCHITECTURE)
    yield from _refuse_unless(known["architecture"], errno.ENOSYS)
    yield _instruction(_LOAD, _NUMBER)
    yield from _refuse_if(_AT_LEAST, _X32, errno.ENOSYS)
    yield from _refuse_if(_EQUAL, calls["clone3"], errno.ENOSYS)  # libc takes clone
    for number in known["refused"]:
        yield from _refuse_if(_EQUAL, number, errno.EPERM)
    yield from _inspect_call(calls["clone"], _first_has(_CLONE_NEWUSER))
    if not has_namespaces:
        yield from _isolate_process(known, calls)
    if not has_network:
        yield from _refuse_if(_EQUAL, calls["connect"], errno.EACCES)
    families = _INTERNET if has_network else (_AF_UNIX,)
    if has_namespaces:  # without a network, theirs leads nowhere
        families = tuple(sorted({*families, *_INTERNET}))
    # Both kinds stay connected to each other, and cannot be aimed at a path. Programs in
    # Rust start others with a pair of packets.
    pair = _second_is_one_of((_SOCK_STREAM, _SOCK_SEQPACKET))
    pairs = (*_first_is_one_of((_AF_UNIX,), errno.EACCES), *pair)
    yield from _inspect_call(calls["socketpair"], pairs)
    yield from _inspect_call(calls["socket"], _is_socket_of(families))
    yield _instruction(_RETURN, _ALLOW)


def _isolate_process(
    known: Mapping[str, tuple[int, ...]], calls: Mapping[str, int]
) -> Iterator[bytes]:
    """Refuse calls on other processes and their files."""
    for number in (*known["shared"], *known["outside"]):
        yield from _refuse_if(_EQUAL, number, errno.EPERM)
    for number in known["attributes"]:  # programs that copy files go on without them
        yield from _refuse_if(_EQUAL, number, errno.EOPNOTSUPP)
    for name in _PROCESS_CALLS:
        yield from _inspect_call(calls[name], _first_is_one_of((0,), errno.EPERM))
    kinds = {"setpriority": _PRIO_PROCESS, "ioprio_set": _IOPRIO_WHO_PROCESS}
    for name, process in kinds.items():
        itself = (_instruction(_LOAD, _SECOND), *_refuse_unless((0,), errno.EPERM))
        first = _first_is_one_of((process,), errno.EPERM)
        yield from _inspect_call(calls[name], (*first, *itself))


def _is_socket_of(families: tuple[int, ...]) -> tuple[bytes, ...]:
    """Refuse other families, and Unix sockets but streams.

    A datagram can be sent to a path without a connection.
    """
    unix = _second_is_one_of((_SOCK_STREAM,))
    skip = _instruction(_EQUAL, _AF_UNIX, 0, len(unix))
    return (*_first_is_one_of(families, errno.EACCES), skip, *unix)


def _first_has(bit: int) -> tuple[bytes, ...]:
    return (_instruction(_LOAD, _FIRST), *_refuse_if(_ANY_BIT, bit, errno.EPERM))


def _first_is_one_of(values: tuple[int, ...], code: int) -> tuple[bytes, ...]:
    return (_instruction(_LOAD, _FIRST), *_refuse_unless(values, code))


def _second_is_one_of(kinds: tuple[int, ...]) -> tuple[bytes, ...]:
    masked = (_instruction(_LOAD, _SECOND), _instruction(_MASK, _SOCK_TYPE))
    return (*masked, *_refuse_unless(kinds, errno.EACCES))


def _inspect_call(number: int, steps: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Inspect the arguments of one call; skip other calls."""
    steps = (*steps, _instruction(_RETURN, _ALLOW))
    return (_instruction(_EQUAL, number, 0, len(steps)), *steps)


def _refuse_if(test: int, value: int, code: int) -> tuple[bytes, ...]:
    return (_instruction(test, value, 0, 1), _instruction(_RETURN, 0x00050000 | code))


def _refuse_unless(values: tuple[int, ...], code: int) -> tuple[bytes, ...]:
    refusal = _instruction(_RETURN, 0x00050000 | code)
    # The first that is equal jumps over those that follow and over the refusal.
    numbered = enumerate(values)
    tests = [_instruction(_EQUAL, value, len(values) - n) for n, value in numbered]
    return (*tests, refusal)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def _call(number: int, *arguments: int | bytes | None) -> int:
    # A plain int would be passed with 32 bits, and the kernel reads 64.
    parameters = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _check(_libc.syscall(ctypes.c_long(number), *parameters), "Landlock")


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


if __name__ == "__main__":
    try:
        run_confined(sys.argv[1:])
    except (OSError, ValueError, KeyError, NotImplementedError) as problem:
        sys.stderr.write(f"[skills-mcp] sandbox: {problem}\n")
    sys.exit(FAILED)
