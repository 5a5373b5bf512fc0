"""Frontmatter and texts that expand, nest or backtrack without end: promise 32."""

from collections.abc import Iterator
from math import isqrt
from pathlib import Path

from skills_mcp.features.authoring.markdown import ALLOW_SECRET
from skills_mcp.features.authoring.validation import validate_paths
from soak.bounded import Cost, measure
from soak.scenario import Figure, Scale, Scenario
from tests.skills.contents import load_skills
from tests.support import skill_text, write

_FEWEST_BOMBS = 30
_MAX_GROWN_MB = 50
_MAX_RATIO = 10
"""The largest ratio of the CPU time of a bomb to that of the largest plain text."""

_LARGE = 1_000_000  # characters: just below what a skill may have
_SMALLER = 100_000  # what grows with the square of its length shows here, too
_HEAD = 60_000  # characters: just below what a head may have
_PLAIN = "plain"


def survive_bombs(folder: Path, scale: Scale) -> Iterator[Figure]:
    """Read and validate each bomb, as a rule and as a package, beside a good skill."""
    size = scale.count(full=_LARGE, quick=_SMALLER)
    bombs = invent_bombs(size)
    step = scale.count(full=1, quick=3)
    tried = {_PLAIN: _plain(_LARGE), **dict(list(bombs.items())[::step])}
    names = list(tried)
    for name, data in tried.items():
        root = folder / name / "content"
        write(root / "good.md", skill_text())
        write(root / "bomb.md", data)
        write(root / "package/SKILL.md", data)
    costs = measure("soak.input.bombs", folder, names)
    silent = [name for name in names if name not in costs]
    yield Figure.none(
        32, f"bombs that hang or end the process{_name(silent)}", len(silent),
        len(names),
    )  # fmt: skip
    faults = [f"{cost.name}: {cost.fault}" for cost in costs.values() if cost.fault]
    yield Figure.none(
        32, f"bombs that raise, or hide another skill{_name(faults)}", len(faults),
        len(names),
    )  # fmt: skip
    yield from _compare(costs)
    yield Figure.every(32, "as many bombs as promised", len(bombs) >= _FEWEST_BOMBS, 1)


def try_one(folder: Path, name: str) -> str:
    """Read and validate a folder with a bomb."""
    root = folder / name / "content"
    served = {skill.path for skill in load_skills(root).skills}
    checked = validate_paths(root)
    if "good" not in served or not checked.skill_count:
        return "another skill is not served"
    return ""


def _compare(costs: dict[str, Cost]) -> Iterator[Figure]:
    worst = max(costs.values(), key=lambda cost: cost.grown_bytes)
    grown = round(worst.grown_bytes / 1024**2, 1)
    yield Figure.at_most(32, f"MB for the worst bomb ({worst.name})", grown, _MAX_GROWN_MB)
    floor = costs[_PLAIN].cpu_seconds
    slowest = max(costs.values(), key=lambda cost: cost.cpu_seconds)
    ratio = round(slowest.cpu_seconds / floor, 1)
    what = f"processor time of the slowest, in that of a plain text ({slowest.name})"
    yield Figure.at_most(32, what, ratio, _MAX_RATIO)


def _plain(size: int) -> bytes:
    line = "Use the house style for every component, and write a test beside it.\n"
    text = _fill(line, size)
    return skill_text(name="bomb", body=text).encode()


def _laughs(levels: int, *, merge: bool = False) -> str:
    """Each line holds nine of the line above."""
    lines = ["a0: &a0 {k: v}" if merge else "a0: &a0 [lol, lol]"]
    for n in range(1, levels):
        names = ", ".join([f"*a{n - 1}"] * 9)
        lines.append(f"a{n}: &a{n} {{<<: [{names}]}}" if merge else f"a{n}: &a{n} [{names}]")
    return "\n".join(lines)


def _fill(unit: str, size: int) -> str:
    return unit * (size // len(unit))


_SECRET = "ghp_" + "9fK2mQ7xLw4Tz8Rb" * 3

_GOOD_HEAD = "name: bomb\ndescription: A bomb\nkeywords: [bomb]"

_HEADS: dict[str, str] = {
    "billion laughs": _laughs(12),
    "quadratic blow-up": f"a: &a {_fill('x', 20_000)}\nb: [{_fill('*a, ', 20_000)}]",
    "merge keys": _laughs(12, merge=True),
    "alias to itself": "a: &a [*a]",
    "merge with itself": "a: &a {<<: *a}",
    "anchors": _fill("&a ", _HEAD),
    "ten thousand anchors": "\n".join(f"k{n}: &a{n} v" for n in range(4_000)),
    "deep lists": _fill("[", _HEAD),
    "deep mappings": _fill("{a: ", _HEAD),
    "deep blocks": "\n".join(" " * n + "a:" for n in range(300)),
    "deep dashes": _fill("- ", _HEAD),
    "question marks": _fill("? ", _HEAD),
    "wide list": f"a: [{_fill('a,', _HEAD)}]",
    "wide mapping": "\n".join(f"k{n}: v" for n in range(6_000)),
    "long scalar": f"description: {_fill('x', _HEAD)}",
    "long folded scalar": f"description: >\n{_fill('  x' + chr(10), _HEAD)}",
    "long quoted scalar": f'description: "{_fill(chr(92) + "x41", _HEAD)}"',
    "open quote": f'description: "{_fill("x ", _HEAD)}',
    "long key": f"{_fill('k', 5_000)}: v",
    "spaces": f"description:{_fill(' ', _HEAD)}x",
    "comments": _fill("# comment\n", _HEAD) + "description: x",
    "colons": _fill("a:", _HEAD),
    "huge integer": f"priority: {_fill('9', _HEAD)}",
    "huge octal": f"priority: 0o{_fill('7', _HEAD)}",
    "sexagesimal": f"priority: {_fill('59:', _HEAD)}59",
    "underscores": f"priority: {_fill('1_', _HEAD)}",
    "no number": "priority: .nan\nversion: .inf",
    "impossible date": "created: 9999-99-99\nkeywords: [2020-02-30]",
    "date with a zone": "created: 2020-01-01T00:00:00+99:99",
    "Python object": "a: !!python/object/apply:os.system ['true']\nb: !!python/name:os",
    "wrong tags": "a: !!int x\nb: !!float y\nc: !!binary ?\nd: !!set [a]",
    "own tags": _fill("!a ", _HEAD) + "x",
    "many documents": _fill("a: b\n...\n%YAML 1.1\n", _HEAD),
    "directives": "%TAG ! tag:x,2000:\n" * 2_000,
    "unhashable key": "? [a, b]\n: c\n? {d: e}\n: f",
    "repeated keys": _fill("keywords: [a]\n", _HEAD),
    "brackets and quotes": _fill("['\"", _HEAD),
    "keywords": f"keywords: [{', '.join(f'w{n}' for n in range(6_000))}]",
    "one long keyword": f"keywords: [{_fill('word ', _HEAD)}]",
    "larger than a head": _fill("k: v\n", 10 * _HEAD),
    "tabs": _fill("\t", _HEAD) + "a: b",
    "controls": _fill("a\x07", _HEAD // 2),
    "surrogates": 'description: "' + _fill("\\ud800", _HEAD) + '"',
}
"""The text of a frontmatter."""


def _invent_bodies(large: int) -> dict[str, str]:
    """Return the body below a valid frontmatter."""
    return {
        "quotes in quotes": _fill(">", large),
        "quotes over lines": _fill(">" * 100 + "\n", large),
        "open brackets": _fill("[", large),
        "closed brackets": _fill("]", large),
        "brackets": _fill("[](", large),
        "links in links": _fill("[a](", large),
        "open links": _fill("[a](<b", large),
        "images in images": _fill("![", large),
        "parentheses": "[a](" + _fill("(", large),
        "references": "\n".join(f"[{n}]: {n}" for n in range(large // 16)),
        "uses of a reference": "[a]: b\n\n" + _fill("[a] ", large),
        "emphasis": _fill("*a **a ", large),
        "stars": _fill("*", large),
        "underlines": _fill("_a_", large),
        "backticks": " ".join("`" * n for n in range(1, isqrt(2 * large))),
        "one kind of backticks": _fill("`", large),
        "open fences": _fill("```\n", large),
        "one open fence": "```\n" + _fill("x\n", large),
        "tables": _fill("|a", 3_000) + "\n" + _fill("|-", 3_000) + "\n" + _fill("|\n", large // 2),
        "entities": _fill("&#0;&amp;&", large),
        "open tags": _fill("<a ", large),
        "open comments": _fill("<!--", large),
        "open instructions": _fill("<?", large),
        "open declarations": _fill("<!A ", large),
        "open data": _fill("<![CDATA[", large),
        "nested lists": "\n".join("  " * n + "- a" for n in range(isqrt(large))),
        "lists in a line": _fill("- ", large),
        "numbers in a line": _fill("1) ", large),
        "headings": _fill("# a\n", large),
        "underlined headings": _fill("a\n=\n", large),
        "section headers": _fill("=== A (from b) ===\n", large),
        "rules": _fill("---\n", large),
        "backslashes": _fill("\\", large),
        "spaces": _fill(" ", large),
        "blank lines": _fill("\n", large),
        "carriage returns": _fill("\r", large),
        "addresses": _fill("http://a", large),
        "addresses in brackets": _fill("<http:a", large),
        "invisible marks": _fill("\u200b", large // 4),
        "combining marks": "e" + _fill("\u0301", large // 3),
        "marks out of order": "e" + _fill("\u0301\u0316", large // 3),
        "marks behind a header": "=== a" + _fill("\u0301\u0316", large // 3),
        "emoji": _fill("\U0001f600\ufe0f", large // 8),
        "letters of two scripts": _fill("p\u0430ypal\n", large // 2),
        "letters of two scripts in a line": _fill("p\u0430ypal ", large // 2) + "\u0451",
        "secrets that are allowed": _fill(f"{_SECRET} ", large) + ALLOW_SECRET,
        "secrets": _fill(f"token: {_SECRET}\n", large),
        "hidden marks over lines": _fill("a\u200bb\n", large // 2),
        "words of one letter": _fill("a ", large),
        "one word": _fill("a", large),
    }


def invent_bombs(large: int) -> dict[str, bytes]:
    """Return whole files of a rule or a package, by name.

    Args:
        large: How many characters a long text has.
    """
    good = f"---\n{_GOOD_HEAD}\n---\n"
    return {
        **{
            f"head: {name}": f"---\n{_GOOD_HEAD}\n{text}\n---\nText.\n".encode()
            for name, text in _HEADS.items()
        },
        **{
            f"text: {name}": f"{good}{text}".encode()
            for name, text in _invent_bodies(large).items()
        },
        "file: zeros": bytes(large),
        "file: NUL in the head": b"---\nname: a\0b\ndescription: \0\n---\n\0",
        "file: UTF-16": (good + _fill("x", large // 4)).encode("utf-16"),
        "file: UTF-32": (good + _fill("x", large // 5)).encode("utf-32"),
        "file: no encoding": b"---\n" + bytes(range(256)) * (large // 256),
        "file: half a character": good.encode() + b"\xf0\x9f\x98" * (large // 3),
        "file: lines of dashes": b"---\n" * (large // 4),
        "file: dashes": b"-" * large,
        "file: a head that never ends": b"---\n" + b"a: b\n" * (large // 5),
        "file: a mark at every line": b"---\n" + "\ufeff---\n".encode() * (large // 10),
        "file: nearly too large": b"x" * (1024 * 1024),
        "file: ten megabytes": b"x\n" * (5 * large),
    }


def _name(found: list[str]) -> str:
    return f" ({'; '.join(found[:3])})" if found else ""


SCENARIOS: tuple[tuple[str, Scenario], ...] = (("bombs", survive_bombs),)
