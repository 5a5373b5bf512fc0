"""Paths that lead out, mean another file, or crash code that joins them.

By class; each is tried through every tool that takes a path.  `{outside}` stands for a
folder with a secret, `{inside}` for the folder of the skill, both absolute.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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
