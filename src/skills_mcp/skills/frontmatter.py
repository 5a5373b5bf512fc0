"""From the text of a Markdown file to a skill, or to the reason why not (001 §4.2).

Rule 1: nothing that a file holds raises; what cannot be used is a `Problem`.
Rule 2: only keywords and description decide whether a file is a skill. A wrong
value anywhere else is reported, and its default is used.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from skills_mcp.errors import InvalidPathError
from skills_mcp.safe_path import parse_relative
from skills_mcp.safe_yaml import YamlError, parse_texts
from skills_mcp.skills.model import (
    Argument,
    Asset,
    Problem,
    Script,
    Skill,
    SkillPath,
)

# YAML's own spellings. Every scalar arrives as text, see `safe_yaml.parse_texts`.
_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})
_EMPTY = frozenset({"", "~", "null"})

# Priority only breaks ties: 1,000 is one whole point of score (001 §5.2).
_MAX_PRIORITY = 1000
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_INTEGER = re.compile(r"[+-]?\d{1,5}")

_EXAMPLE = "start the file with --- / description: … / keywords: [one, two] / ---"


def parse_skill(
    text: str, *, file: str, directory: Path | None
) -> tuple[Skill | None, tuple[Problem, ...]]:
    """Return the skill that `text` describes, and what is wrong with it.

    Args:
        text: The whole file.
        file: Its path relative to the content's root, for messages and headers.
        directory: The folder with its assets and scripts, if there is one.
    """
    report = _Report(file)
    split = _split(text, report)
    fields = _fields(split[0], report) if split else None
    if split is None or fields is None:
        return None, report.problems

    keywords = _keywords(fields, report)
    description = _description(fields, report)
    if not keywords or not description:
        return None, report.problems

    path = derive_path(file)
    assets, scripts = tuple(_assets(fields, report)), tuple(_scripts(fields, report))
    skill = Skill(
        path=path,
        file=file,
        name=path.rsplit("/", 1)[-1],
        description=description,
        keywords=keywords,
        body=split[1],
        inherit=_flag(fields, "inherit", report, default=True),
        priority=_priority(fields, report),
        # Without a folder there is nothing to hand out (001 §7.1).
        assets=assets if directory else (),
        scripts=scripts if directory else (),
        directory=directory,
    )
    if directory is None and (assets or scripts):
        report.warn(
            "declares assets or scripts, but has no folder for them",
            f"put the files into {path}/, beside the Markdown file",
        )
    return skill, report.problems


def derive_path(file: str) -> SkillPath:
    """Return a file's skill path (001 §4.3).

    >>> derive_path("ui/react/auth.md")
    'ui/react/auth'
    """
    return SkillPath(file.removesuffix(".md"))


@dataclass(slots=True)
class _Report:
    """Collects what is wrong with one file, so that an author sees all of it."""

    file: str
    _found: list[Problem] = field(default_factory=list)

    def fail(self, reason: str, hint: str) -> None:
        self._found.append(Problem(self.file, reason, hint))

    def warn(self, reason: str, hint: str) -> None:
        self._found.append(Problem(self.file, reason, hint, "warning"))

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(self._found)


@cache
def _splitter() -> Any:
    from frontmatter.default_handlers import YAMLHandler  # late, as in `safe_yaml`

    return YAMLHandler()


def _split(text: str, report: _Report) -> tuple[str, str] | None:
    """Return the frontmatter block and the body."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").lstrip()
    splitter = _splitter()
    if not splitter.detect(text):
        report.fail("has no frontmatter", _EXAMPLE)
        return None
    try:
        block, body = splitter.split(text)
    except ValueError:
        report.fail("has a frontmatter that never ends", "close it with a line of ---")
        return None
    return block, body.strip()


def _fields(block: str, report: _Report) -> Mapping[str, Any] | None:
    try:
        fields = parse_texts(block)
    except YamlError as error:
        report.fail(
            f"has a frontmatter that is no valid YAML: {error}",
            "quote values that hold a colon or begin with a special character",
        )
        return None
    if not isinstance(fields, dict):
        report.fail("has a frontmatter without `key: value` lines", _EXAMPLE)
        return None
    cleaned: Mapping[str, Any] = _without_controls(fields)
    if cleaned != fields:
        report.warn("has control characters, which are left out", "take them out")
    return cleaned


def _without_controls(node: Any) -> Any:
    """Return the texts without what would steer the terminal of a reader."""
    match node:
        case str():
            return _CONTROLS.sub("", node)
        case list():
            return [_without_controls(item) for item in node]
        case dict():
            return {key: _without_controls(value) for key, value in node.items()}
        case _:
            return node


def _keywords(fields: Mapping[str, Any], report: _Report) -> tuple[str, ...]:
    value = fields.get("keywords")
    if not isinstance(value, list):
        reason = (
            "has no keywords" if value in (None, "") else "has keywords, not a list"
        )
        report.fail(reason, "write a list: keywords: [react, auth, login]")
        return ()
    texts = [item.strip() for item in value if isinstance(item, str)]
    kept: dict[str, str] = {}
    for word in filter(None, texts):
        kept.setdefault(word.casefold(), word)
    if not kept:
        report.fail("has no keywords", "write what a developer would type: [react]")
    elif len(kept) < len(value):
        report.warn(
            "has keywords that are empty, repeated or no text",
            "keep each word once",
        )
    return tuple(kept.values())


def _description(fields: Mapping[str, Any], report: _Report) -> str:
    value = fields.get("description")
    if not isinstance(value, str) or value.strip() in _EMPTY:
        report.fail(
            "has no description",
            "add one sentence that says when the skill applies: description: …",
        )
        return ""
    return " ".join(value.split())


def _flag(
    fields: Mapping[str, Any], key: str, report: _Report, *, default: bool
) -> bool:
    value = fields.get(key, "")
    word = value.strip().casefold() if isinstance(value, str) else "no scalar"
    if word in _TRUE | _FALSE:
        return word in _TRUE
    if word not in _EMPTY:
        reason = f"has {key}: {value!r}, so {str(default).lower()} is used"
        report.warn(reason, "write true or false")
    return default


def _priority(fields: Mapping[str, Any], report: _Report) -> int:
    value = fields.get("priority", "")
    word = value.strip().casefold() if isinstance(value, str) else "no scalar"
    if word in _EMPTY:
        return 0
    if _INTEGER.fullmatch(word) and abs(int(word)) <= _MAX_PRIORITY:
        return int(word)
    report.warn(
        f"has priority: {value!r}, so 0 is used",
        f"write a whole number from -{_MAX_PRIORITY} to {_MAX_PRIORITY}",
    )
    return 0


def _assets(fields: Mapping[str, Any], report: _Report) -> Iterator[Asset]:
    for entry in _entries(fields, "assets", report):
        yield Asset(
            file=entry["file"],
            description=_text(entry, "description"),
            type=_text(entry, "type") or "other",
        )


def _scripts(fields: Mapping[str, Any], report: _Report) -> Iterator[Script]:
    for entry in _entries(fields, "scripts", report):
        execution = _text(entry, "execution") or "claude"
        if execution not in {"claude", "server"}:
            report.warn(
                f"has execution: {execution!r} for {entry['file']}, so claude is used",
                "write claude (the agent runs it) or server (run_script runs it)",
            )
        yield Script(
            file=entry["file"],
            description=_text(entry, "description"),
            # Never to the server's side by a spelling mistake.
            execution="server" if execution == "server" else "claude",
            args=tuple(_arguments(entry, report)),
        )


def _arguments(script: Mapping[str, Any], report: _Report) -> Iterator[Argument]:
    for entry in _mappings(script, "args", "name", report):
        yield Argument(
            name=entry["name"],
            description=_text(entry, "description"),
            required=_flag(entry, "required", report, default=True),
        )


def _entries(
    fields: Mapping[str, Any], key: str, report: _Report
) -> Iterator[Mapping[str, Any]]:
    """Iterate over declared files, without those that could leave the folder."""
    for entry in _mappings(fields, key, "file", report):
        try:
            parse_relative(entry["file"])
        except InvalidPathError:
            report.warn(
                f"declares {entry['file']!r}, which is not inside its folder",
                "use a relative path without .. and with forward slashes",
            )
        else:
            yield entry


def _mappings(
    fields: Mapping[str, Any], key: str, required: str, report: _Report
) -> Iterator[Mapping[str, Any]]:
    value = fields.get(key)
    entries = value if isinstance(value, list) else []
    for entry in entries:
        if isinstance(entry, dict) and _text(entry, required):
            yield {**entry, required: _text(entry, required)}
        else:
            report.warn(
                f"has an entry in {key} without {required}",
                f"write: {key}: / - {required}: …",
            )
    if not isinstance(value, list) and value not in (None, *_EMPTY):
        report.warn(f"has {key}, not a list", f"write: {key}: / - {required}: …")


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    return value.strip() if isinstance(value, str) else ""
