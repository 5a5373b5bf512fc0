"""The target of a coverage-guided fuzzer: bytes as paths and as frontmatter.

`python -m soak.input.fuzz_target -runs=1000 …` takes the options of libFuzzer, and
ends with the input that raised something, if one did.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(
    include=[
        "skills_mcp.files.opening",
        "skills_mcp.files.paths",
        "skills_mcp.text.safe_yaml",
        "skills_mcp.skills",
    ]
):
    from skills_mcp.errors import InvalidPathError, MissingFileError
    from skills_mcp.files.opening import OPENERS, has_openat2, open_inside
    from skills_mcp.files.paths import find_composed_name, parse_relative
    from skills_mcp.skills.document import decode_markdown
    from skills_mcp.skills.model import ProblemList, SkillPath
    from skills_mcp.skills.skill_parser import parse_package, parse_rule_file

_CANARY = b"canary"
_USABLE = [each for name, each in OPENERS.items() if name != "openat2" or has_openat2()]


def try_bytes(data: bytes, root: Path) -> None:
    """Use some bytes as a path, and as a file of a skill in both formats.

    Raises:
        AssertionError: A path led outside, or two ways of opening disagree.
        Exception: What should have been a problem or a typed error.
    """
    _try_path(data.decode("utf-8", "surrogateescape"), root)
    _try_skill(data)


def _try_path(text: str, root: Path) -> None:
    try:
        parts = parse_relative(text)
    except InvalidPathError:
        parts = tuple(text.split("/"))  # without the check it must not escape
    else:
        _require("/".join(parts) == text, "a path that is not what was asked for")
        _require(find_composed_name([text], text) == text, "a name that is not its own")
    found = {_open(root, parts, number) for number in range(len(_USABLE))}
    _require(len(found) == 1, f"openers disagree: {found}")
    _require(_CANARY not in found, "a path that leads outside")


def _open(root: Path, parts: tuple[str, ...], number: int) -> bytes | None:
    try:
        with open_inside(root, parts, _USABLE[number]) as handle:
            return handle.read()
    except MissingFileError:
        return None


def _try_skill(data: bytes) -> None:
    for is_package in (False, True):
        report = ProblemList("a.md")
        text = decode_markdown(data, report, lenient=is_package)
        if text is None:
            _require(bool(report.problems), "a file that is left out in silence")
            continue
        # What most inputs lack: a frontmatter of their own.
        for whole in (text, f"---\n{text}\n---\nText."):
            _parse(whole, is_package=is_package)


def _parse(text: str, *, is_package: bool) -> None:
    if is_package:
        path = SkillPath("a")
        skill, problems = parse_package(text, file="a/SKILL.md", path=path, files={})
    else:
        skill, problems = parse_rule_file(text, file="a.md", directory=Path("a"))
    _require(skill is not None or bool(problems), "a skill that is lost in silence")
    if skill is not None:
        str(skill).encode("utf-8", "surrogatepass")


def _require(condition: bool, fault: str) -> None:  # noqa: FBT001
    if not condition:
        raise AssertionError(fault)


def _make_maze(top: Path) -> Path:
    """Make a folder with links that lead out, beside a canary."""
    root = top / "inside"
    (root / "a/b").mkdir(parents=True)
    for secret in (top / "canary", top / "a"):
        secret.write_bytes(_CANARY)
    for file in ("b", "a/a", "a/b/c"):
        (root / file).write_bytes(b"inside")
    (root / "up").symlink_to("..", target_is_directory=True)
    (root / "a/x").symlink_to(top / "canary")
    return root


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        maze = _make_maze(Path(folder))
        atheris.Setup(sys.argv, lambda data: try_bytes(data, maze))
        atheris.Fuzz()
