"""Hostile paths through every tool that takes one, over a real client: promise 29.

They lead out, mean another file, or crash code that joins them.  `{outside}` stands for
a folder with a secret, `{inside}` for the folder of the skill, both absolute.
"""

import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent

from skills_mcp.library.skill_library import SkillLibrary
from soak.scenario import Figure, Scale, Scenario
from tests.clients import ERAS, connected
from tests.support import open_library, skill_text, write

_DOT_DOT = [
    *("..", "../", "../secret.txt", "../../outside/secret.txt", "./../secret.txt"),
    *("assets/../../secret.txt", "assets/..", "assets/../..", "a/b/../../../x"),
    *("assets/../assets/x.txt", "../auth/assets/x.txt", "../content-evil/secret.txt"),
    *("..//secret.txt", "....//secret.txt", "..;/secret.txt", "assets/.../x"),
    *("../" * 300 + "etc/passwd", "assets/./x.txt", ".", "./", "./assets/x.txt", "..."),
]
_BACKSLASH = [
    *("..\\secret.txt", "assets\\x.txt", "\\secret.txt", "..\\..\\outside\\secret.txt"),
    *("..\\/secret.txt", "../\\secret.txt", "assets\\..\\..\\secret.txt", "\\\\"),
    "assets/..\\..\\secret.txt",
]
_ABSOLUTE = [
    *(
        "/etc/passwd",
        "//etc/passwd",
        "///etc/passwd",
        "/",
        "//",
        "/.",
        "/..",
        "/dev/zero",
    ),
    *(
        "/proc/self/environ",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd",
        "/dev/fd/0",
    ),
    *("{outside}/secret.txt", "/{outside}/secret.txt", "{inside}/assets/x.txt"),
    *("{inside}", "{outside}", "file:///etc/passwd", "file:{outside}/secret.txt"),
]
_SHELL_WORDS = [
    *("~", "~/", "~root", "~/.ssh/id_rsa", "~+/x", "$HOME/.ssh/id_rsa", "${HOME}/x"),
    *("%USERPROFILE%/x", "$(cat /etc/passwd)", "`id`", "a;id", "a&&id", "a|id"),
    *("-rf", "--help", "@/etc/passwd", "!x", "#x"),
]
_DRIVES = [
    *("C:\\Windows\\win.ini", "C:/Windows/win.ini", "C:x.txt", "c:", "C:", "C:/"),
    *("\\\\server\\share\\x", "//server/share/x", "\\\\?\\C:\\x", "\\\\.\\C:\\x"),
    *("//?/C:/x", "\\??\\C:\\x", "//./PhysicalDrive0"),
]
_DEVICES = [
    *("CON", "con", "NUL", "nul.txt", "AUX.md", "prn", "assets/NUL", "NUL .txt"),
    *("COM1", "com1.txt", "COM¹", "lpt9", "LPT³.log", "CONIN$", "CONOUT$", "CLOCK$"),
    "aux.c.txt",
]
_STREAMS = [
    *("assets/x.txt::$DATA", "assets/x.txt:hidden", "assets::$INDEX_ALLOCATION"),
    *("assets/x.txt:", ":x.txt", "x:y:z"),
]
_ENDINGS = [
    *("assets/x.txt/", "assets/x.txt/.", "assets/x.txt/..", "assets/x.txt.", "assets/"),
    *(
        "assets/x.txt ",
        " assets/x.txt",
        "assets/x.txt\t",
        "assets /x.txt",
        "assets./x.txt",
    ),
    *("assets/x.txt/y", "assets//x.txt", "ASSETS~1/x.txt", "ASSETS~1", "PROGRA~1.TXT"),
    *("assets/x.txt\u3000", "assets/x.txt\xa0", ""),
]
_CONTROLS = [
    *("\0", "assets/x.txt\0", "assets/x.txt\0.png", "\0/etc/passwd", "a\nb", "a\rb"),
    *("assets/x.txt\n", "a\x1b[2Jb", "a\x7fb", "a\x08b", "a\x85b", "a\tb", "a\x0bb"),
    *("a\u2028b", "a\u2029b", "a\ufffeb"),
]
_INVISIBLE = [
    *("assets/x\u200b.txt", "assets/\u202etxt.x", "\ufeffassets/x.txt", "a\u2066b"),
    *("assets/x\u034f.txt", "assets/x\ufe0f.txt", "a\u3164b", "a\u115fb", "a\u1160b"),
    *("a\u17b4b", "a\u180eb", "a\u180bb", "a\u2800b", "a\uffa0b", "a\U000e0100b"),
    *("a\U000e0041b", "a\u00adb", "a\u2060b", "a\ue000b", "a\U000f0000b", "a\u0378b"),
]
_ENCODED = [
    *("%2e%2e/secret.txt", "%2e%2e%2fsecret.txt", "..%2fsecret.txt", "..%5csecret.txt"),
    *("%252e%252e%252fsecret.txt", "..%252f", "%c0%ae%c0%ae/secret.txt", "..%c0%afx"),
    *(
        "&#46;&#46;/secret.txt",
        "\\u002e\\u002e/secret.txt",
        "=2e=2e/x",
        "%00",
        "x%00.txt",
    ),
    *("assets%2fx.txt", "%2fetc%2fpasswd"),
]
_LOOK_ALIKES = [
    *(
        "\uff0e\uff0e/secret.txt",
        "\u2025/secret.txt",
        "\u2024\u2024/secret.txt",
        "..\uff0fsecret.txt",
        "..\u2215secret.txt",
    ),
    *(
        "..\u2044secret.txt",
        "..\uff3csecret.txt",
        "ASSETS/X.TXT",
        "Assets/x.txt",
        "assets/X.txt",
    ),
    *("\u212aelvin.txt", "a\u017fsets/x.txt", "\u0430ssets/x.txt", "\uff41ssets/x.txt"),
    *("cafe\u0301.txt", "caf\xe9.txt", "assets/x.t\u0445t", "assets/\u1e8b.txt"),
]
_SURROGATES = ["a\ud800b", "\udcff", "assets/\udfff.txt", "\ud83d/x"]
_GIT = [
    *(".git", ".git/config", ".GIT/config", ".Git/HEAD", "assets/.git/config", "git~1"),
    *("GIT~1/config", ".git /config", ".git./config", ".git::$INDEX_ALLOCATION/config"),
    *(
        ".g\u200cit/config",
        ".gitmodules",
        ".gitattributes",
        "gitmod~1",
        "../.git/config",
    ),
    *("objects.git/HEAD", ".git\u200b", ".env"),
]
_SPECIAL = [
    *("links/absolute", "links/relative", "links/folder/secret.txt", "links/itself"),
    *("links/loop", "links/loop/loop/loop", "links/dangling", "links/other-skill"),
    *("links/chain", "links/proc", "links/root/etc/passwd", "links/inside", "links"),
    *("special/pipe", "special/socket", "special/device", "special"),
    *(
        "special/undeclared",
        "secret.txt",
        "../auth.md",
        "assets/x.txt.bak",
    ),
]
_LENGTHS = [
    *("a" * 255, "a" * 256, "a" * 1024, "a" * 1025, "a" * 4096, "a" * 9000),
    *("é" * 127 + "e", "é" * 128, "a/" * 300 + "x", "a/" * 32 + "x", "a/" * 33 + "x"),
    *("/" * 1000, "/" * 9000, "." * 500, "a" * 100_000, "../" * 3000),
]
_PATTERNS = [
    *(
        "*/../../*",
        "../*",
        "/etc/*",
        "**/../**",
        "assets/?.txt/..",
        "[a-z]*/x",
        "{{a,b}}",
    ),
    *(
        "[",
        "]",
        "[!",
        "[a",
        "**",
        "***",
        "*" * 200,
        "?" * 1100,
        "(a+)+$",
        ".*",
        "\\",
        "\\*",
    ),
]
_SCRIPTS = [
    *(
        "run.sh\n",
        "run.sh\n.txt",
        "run.sh\0",
        "run.SH",
        "run.sh.txt",
        "run",
        "run.sh .",
    ),
    *("../run.sh", "other.sh", "./run.sh", "run.sh;id", "run.sh -x", "bash", "/bin/sh"),
]
_TYPES: list[Any] = [
    *(1, 0, -1, 1.5, True, False, [], ["assets/x.txt"], {}, {"file": "x"}, 2**70, None),
]

_CLASSES: Mapping[str, list[Any]] = {
    "dot-dot": _DOT_DOT,
    "backslash": _BACKSLASH,
    "absolute": _ABSOLUTE,
    "shell words": _SHELL_WORDS,
    "drives": _DRIVES,
    "devices": _DEVICES,
    "streams": _STREAMS,
    "endings": _ENDINGS,
    "controls": _CONTROLS,
    "invisible": _INVISIBLE,
    "encoded": _ENCODED,
    "look-alikes": _LOOK_ALIKES,
    "surrogates": _SURROGATES,
    "Git's own": _GIT,
    "special files": _SPECIAL,
    "lengths": _LENGTHS,
    "patterns": _PATTERNS,
    "scripts": _SCRIPTS,
    "types": _TYPES,
}


def invent_paths(inside: Path, outside: Path) -> Iterator[tuple[str, Any]]:
    """Yield every path with the name of its class."""
    for name, paths in _CLASSES.items():
        for path in paths:
            if isinstance(path, str):
                text = path.replace("{inside}", str(inside))
                yield name, text.replace("{outside}", str(outside))
            else:
                yield name, path


_FEWEST_PATHS, _FEWEST_CLASSES = 150, 15
_CANARY = "CANARY-OF-ANOTHER-FOLDER"
_TASK = "log in"

_RUN: dict[str, Any] = {"skill_path": "auth", "file": "run.sh", "args": {}}
_TOOLS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "get_asset": lambda path: {"skill_path": "auth", "file": path},
    "get_asset of": lambda path: {"skill_path": path, "file": "assets/x.txt"},
    "read_skill_file": lambda path: {"skill_name": "pdf", "file_path": path},
    "read_skill_file of": lambda path: {"skill_name": path, "file_path": "x.txt"},
    "run_script": lambda path: {"skill_path": "auth", "file": path, "args": {}},
    "run_script in": lambda path: {
        **_RUN,
        "cwd": path,
    },
    "list_skills": lambda path: {"path": path},
    "find_skill_files": lambda path: {"skill_name": "pdf", "pattern": path},
    "get_skill": lambda path: {"context": _TASK, "skill_path": path},
    "get_skill within": lambda path: {"context": _TASK, "within": path},
    "get_skill of": lambda path: {"context": _TASK, "category": path},
    "get_skill known": lambda path: {"context": _TASK, "known_digest": path},
    "search_skills within": lambda path: {"query": _TASK, "within": path},
    "load_skill": lambda path: {"skill_name": path},
    "load_skill_examples": lambda path: {"skill_name": path, "query": _TASK},
    "find_skill_files of": lambda path: {"skill_name": path},
    "find_skill_files with": lambda path: {"skill_name": "pdf", "contains": path},
    "report_usage": lambda path: {"skill_path": path, "useful": True},
}
"""The arguments of each call; two of one name differ in the hostile argument."""

_MAY_ANSWER = frozenset(
    {"list_skills", "find_skill_files", "find_skill_files with"}
    | {"get_skill known", "report_usage"}
)
"""A pattern, a text or the top of the tree: such words are no path to a file."""

_PARTS = frozenset({"get_skill within", "get_skill of", "search_skills within"})
"""Arguments that choose a part of the tree; an empty one, or slashes, means all."""

_MEAN_NOTHING = (None, "")
"""Values that count as a missing argument, where it is optional."""


@dataclass(slots=True)
class _Tally:
    """The outcome of the calls."""

    calls: int = 0
    leaks: list[str] = field(default_factory=list)
    served: list[str] = field(default_factory=list)
    untyped: list[str] = field(default_factory=list)
    echoes: list[str] = field(default_factory=list)


def refuse_paths(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Pass every hostile path, in every argument that takes a path."""
    tally = _Tally()
    root = folder / "content"
    paths = tuple(invent_paths(root / "auth", folder / "outside"))
    with _hostile_content(folder):
        settings = {"toolsets": ["core", "packages"]}
        for era in ERAS if scale.is_full else ("auto",):
            library = open_library(root, settings=settings)
            anyio.run(_ask_everything, library, era, paths, tally, str(folder))
    yield _none("led outside", tally.leaks, tally.calls)
    yield _none("were answered with a file or a run", tally.served, tally.calls)
    yield _none("failed in another way than by a code", tally.untyped, tally.calls)
    yield _none("were refused with an absolute path", tally.echoes, tally.calls)
    classes = {name for name, _ in paths}
    enough = len(paths) >= _FEWEST_PATHS and len(classes) >= _FEWEST_CLASSES
    what = f"as many paths as promised: {len(paths)} in {len(classes)} classes"
    yield Figure.every(29, what, enough, 1)


def _none(what: str, found: list[str], calls: int) -> Figure:
    first = f" ({'; '.join(found[:3])})" if found else ""
    return Figure.none(29, f"hostile paths that {what}{first}", len(found), calls)


@contextmanager
def _hostile_content(folder: Path) -> Iterator[None]:
    """Write skills, secrets beside them, and every kind of link between the two."""
    outside, root = folder / "outside", folder / "content"
    for place in (outside, folder, folder / "content-evil", root / "other"):
        write(place / "secret.txt", _CANARY)
    write(root / "other.md", skill_text())
    write(root / "pdf/SKILL.md", "---\nname: pdf\ndescription: D\n---\nText.\n")
    for skill in (root / "auth", root / "pdf"):
        write(skill / "assets/x.txt", "inside")
        write(skill / "special/undeclared", _CANARY)
        _link(skill / "links", outside, root)
    (root / "pdf/special/undeclared").unlink()  # a package declares what it has
    write(root / "auth/run.sh", "echo ran")
    write(root / "auth/other.sh", f"echo {_CANARY}")
    declared = ["assets/x.txt", "special/pipe", "special/socket", "special"]
    declared += [f"links/{each.name}" for each in (root / "auth/links").iterdir()]
    scripts = [{"file": "run.sh", "description": "R", "execution": "server"}]
    assets = [{"file": file, "description": "A"} for file in declared]
    write(root / "auth.md", skill_text(assets=assets, scripts=scripts))
    os.mkfifo(root / "auth/special/pipe")
    os.mkfifo(root / "pdf/special/pipe")
    here = Path.cwd()
    with socket.socket(socket.AF_UNIX) as end:
        os.chdir(root / "auth/special")  # the name of a socket may not be long
        try:
            end.bind("socket")
        finally:
            os.chdir(here)
        yield


def _link(links: Path, outside: Path, root: Path) -> None:
    links.mkdir()
    targets: dict[str, str | Path] = {
        "absolute": outside / "secret.txt",
        "relative": "../../../outside/secret.txt",
        "folder": outside,
        "itself": "itself",
        "loop": ".",
        "dangling": "nowhere",
        "other-skill": root / "other/secret.txt",
        "chain": "absolute",
        "proc": "/proc/self/environ",
        "root": "/",
        "inside": "../assets/x.txt",
    }
    for name, target in targets.items():
        (links / name).symlink_to(target)


async def _ask_everything(
    library: SkillLibrary,
    era: str,
    paths: tuple[tuple[str, Any], ...],
    tally: _Tally,
    secret_place: str,
) -> None:
    async with _client(library, era) as client:
        for name, path in paths:
            for tool, arguments in _TOOLS.items():
                tally.calls += 1
                label = f"{tool}, {name}: {str(path)[:40]!r}"
                reply = await _call(client, tool.split()[0], arguments(path))
                _judge(tally, label, tool, path, reply, secret_place)


@asynccontextmanager
async def _client(library: SkillLibrary, era: str) -> AsyncIterator[Client]:
    async with connected(library, era) as client:
        yield client


async def _call(client: Client, tool: str, arguments: dict[str, Any]) -> str:
    """Return the text of the answer; of an error of the protocol, nothing."""
    try:
        with anyio.fail_after(30):
            result = await client.call_tool(tool, arguments)
    except MCPError as error:
        return f"protocol error: {error}"
    [*_, block] = result.content
    return block.text if isinstance(block, TextContent) else ""


def _judge(  # noqa: PLR0913, PLR0917 - what was asked, and what was answered
    tally: _Tally, label: str, tool: str, path: object, reply: str, place: str
) -> None:
    if _CANARY in reply:
        tally.leaks.append(label)
    try:
        answer = json.loads(reply)
        error = answer.get("error")
    except ValueError:
        tally.untyped.append(f"{label}: {reply[:80]}")
        return
    if error is None:
        may_leave_out = tool in {"run_script in", "get_skill", *_PARTS}
        is_left_out = path in _MEAN_NOTHING and may_leave_out
        is_left_out |= tool in _PARTS and str(path).strip("/") == ""
        is_own = tool == "run_script in" and _is_here(path)
        if tool not in _MAY_ANSWER and not is_left_out and not is_own:
            tally.served.append(label)
        return
    if place in reply or "'/" in reply:
        tally.echoes.append(label)
    if not error.get("code", "").isupper() or "Traceback" in reply:
        tally.untyped.append(f"{label}: {reply[:80]}")


def _is_here(path: object) -> bool:
    """Whether a path is another name of the folder in which scripts may run."""
    is_path = isinstance(path, str) and path.startswith("/") and "\0" not in path
    return is_path and os.path.realpath(str(path)) == str(Path.cwd())


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("hostile-paths", refuse_paths),)
