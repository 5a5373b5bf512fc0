"""Prompts with the skills that should answer them, from a file or from the skills.

Rule: the author of a file sees everything that is wrong with it at once.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from skills_mcp.errors import SkillDisabledError, SkillNotFoundError
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.scoping import EVERYWHERE, Scoping, narrow
from skills_mcp.text.rendering import shorten
from skills_mcp.text.safe_yaml import YamlError, parse_values

_YAML_SUFFIXES = frozenset({".yaml", ".yml"})
_KEYS = ("query", "expect", "avoid", "ambiguous", "within", "category")

# The first entry says how far all of them are indented.
_YAML_ENTRY = re.compile(r"^( *)-(?:\s|$)")

_ENOUGH_ALIKE = 0.8  # of 1: `expects` and `ambigous` are slips, `tags` is not
_MOST_FINDINGS = 50

_LONGEST = 100  # a longer path is no slip, and takes long to compare
_FEW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A task in a user's words, and which answers to it are right."""

    query: str
    expect: tuple[str, ...]
    """The paths of the skills that serve it; none if no skill should."""
    avoid: tuple[str, ...] = ()
    """The paths of skills that must not be the answer; others may be."""
    is_ambiguous: bool = False
    """Whether an answer that lists the right skill among others is as good."""
    scoping: Scoping = EVERYWHERE
    """The part of the skills that it is about."""
    origin: str
    """The file and line: `prompts.jsonl:3`, or the file of a skill."""


@dataclass(frozen=True, slots=True)
class PromptFinding:
    """Why a prompt, or a whole file of them, cannot be used."""

    origin: str
    reason: str

    def __str__(self) -> str:
        return f"{self.origin}: {self.reason}"


class PromptsError(ValueError):
    """Prompts that cannot be used; the message has a line for each reason."""

    def __init__(self, findings: Iterable[PromptFinding]) -> None:
        self.findings = tuple(findings)
        lines = list(map(str, self.findings[:_MOST_FINDINGS]))
        more = len(self.findings) - len(lines)
        super().__init__("\n".join([*lines, *([f"and {more} more"] if more else [])]))


def load_prompts(file: Path) -> tuple[Prompt, ...]:
    """Read a file of prompts: YAML by its name, and JSON Lines by any other.

    Raises:
        PromptsError: Naming every line that is wrong.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
        raise PromptsError([PromptFinding(str(file), reason)]) from error
    except UnicodeDecodeError as error:
        raise PromptsError([PromptFinding(str(file), "is not UTF-8 text")]) from error
    parse = _parse_yaml if file.suffix.lower() in _YAML_SUFFIXES else _parse_lines
    return parse_entries(parse(text, file.name))


def collect_examples(index: SkillIndex) -> tuple[Prompt, ...]:
    """Return the `examples` in the frontmatter of the skills as prompts."""
    return tuple(
        Prompt(query=query, expect=(skill.path,), origin=skill.file)
        for skill in index
        for query in skill.examples
    )


def parse_entries(entries: Iterable[tuple[str, Any]]) -> tuple[Prompt, ...]:
    """Return a prompt for each value; each value comes with its origin.

    Raises:
        PromptsError: Naming every value that is wrong.
    """
    prompts: list[Prompt] = []
    findings: list[PromptFinding] = []
    for origin, value in entries:
        wrong = (
            [value] if isinstance(value, PromptFinding) else list(_check(value, origin))
        )
        findings += wrong
        if not wrong:
            prompts.append(_prompt(value, origin))
    if findings:
        raise PromptsError(findings)
    return tuple(prompts)


def check_prompts(prompts: Iterable[Prompt], index: SkillIndex) -> None:
    """Check that the parts and the skills to avoid, which prompts name, exist.

    Raises:
        PromptsError: Naming each that does not, and what there is instead.
    """
    empty = cache(lambda scoping: _find_empty(scoping, index))
    findings = []
    for prompt in prompts:
        missing = (_advise(p, index) for p in prompt.avoid if index.get(p) is None)
        reasons = (empty(prompt.scoping), *missing)
        findings += [PromptFinding(prompt.origin, each) for each in reasons if each]
    if findings:
        raise PromptsError(findings)


def find_missing(prompt: Prompt, index: SkillIndex) -> str:
    """Say which expected skill does not exist; empty if at least one does.

    A typing error or a moved skill fails only its own prompt.
    """
    if not prompt.expect or any(index.get(path) for path in prompt.expect):
        return ""
    return _advise(prompt.expect[0], index)


def _advise(path: str, index: SkillIndex) -> str:
    """Say why there is no skill at a path, and which one the author may mean."""
    error = index.not_found(path)
    if isinstance(error, SkillDisabledError):
        return str(error)
    paths = [row.path for row in index.listed]
    last = path.rsplit("/", 1)[-1]
    named = [each for each in paths if each.rsplit("/", 1)[-1] == last]
    similar = named or get_close_matches(path[:_LONGEST], paths)
    hint = f": did you mean {' or '.join(similar[:_FEW])}?" if similar else ""
    return f"there is no skill {shorten(path)}{hint}"


def _find_empty(scoping: Scoping, index: SkillIndex) -> str:
    """Say why a part has no skill; empty if it has one."""
    try:
        narrow(index, scoping)
    except SkillNotFoundError as error:
        return str(error)
    return ""


def _parse_lines(text: str, name: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        origin = f"{name}:{number}"
        try:
            yield origin, json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "msg", "nested too deeply")
            example = '{"query": "…", "expect": ["path"]}'
            yield (
                origin,
                PromptFinding(origin, f"is not JSON ({reason}): write {example}"),
            )


def _parse_yaml(text: str, name: str) -> Iterator[tuple[str, Any]]:
    try:
        values = parse_values(text)
    except YamlError as error:
        hint = "" if "line" in str(error) else "; a JSON Lines file has no size limit"
        yield name, PromptFinding(name, f"is not YAML that can be read: {error}{hint}")
        return
    if not isinstance(values, list):
        yield (
            name,
            PromptFinding(name, "is not a list: write - query: … / expect: path"),
        )
        return
    lines = _find_entries(text)
    for number, value in enumerate(values):
        is_known = len(lines) == len(values)
        place = f":{lines[number]}" if is_known else f", entry {number + 1}"
        yield f"{name}{place}", value


def _find_entries(text: str) -> list[int]:
    """Return the lines in which the entries of the outermost list begin."""
    found = [
        (len(match[1]), number)
        for number, line in enumerate(text.split("\n"), 1)
        if (match := _YAML_ENTRY.match(line))
    ]
    return [number for indent, number in found if indent == found[0][0]]


def _check(value: Any, origin: str) -> Iterator[PromptFinding]:
    """Iterate over what is wrong with one entry."""
    if not isinstance(value, dict):
        yield PromptFinding(origin, f"is not a mapping, but {shorten(value)}")
        return
    yield from (PromptFinding(origin, reason) for reason in _reasons(value))


def _reasons(value: Mapping[str, Any]) -> Iterator[str]:
    if not _is_text(value.get("query")):
        yield "query is missing: write the task as a user would"
    yield from _check_answers(value)
    if not isinstance(value.get("ambiguous", False), bool):
        yield f"ambiguous must be true or false, not {shorten(value['ambiguous'])}"
    for key in ("within", "category"):
        if value.get(key) is not None and not _is_text(value[key]):
            yield f"{key} must be a text, not {shorten(value[key])}"
    for key in value:
        if key not in _KEYS:
            alike = get_close_matches(str(key), _KEYS, n=1, cutoff=_ENOUGH_ALIKE)
            yield from (f"{shorten(key)} is unknown: did you mean {a}?" for a in alike)


def _check_answers(value: Mapping[str, Any]) -> Iterator[str]:
    """Iterate over what is wrong with the skills that are right, or must not be."""
    expected, avoided = _as_list(value.get("expect")), _as_list(value.get("avoid"))
    if "expect" not in value and not avoided:
        yield "expect is missing: write a path, a list of paths, or null for no skill"
    elif not all(map(_is_text, expected)):
        wrong = shorten(value["expect"])
        yield f"expect must be a path, a list of paths or null, not {wrong}"
    elif value.get("ambiguous") is True and not expected:
        yield "ambiguous has no meaning where no skill is expected: delete it"
    if not all(map(_is_text, avoided)):
        yield f"avoid must be a path or a list of paths, not {shorten(value['avoid'])}"


def _prompt(value: Mapping[str, Any], origin: str) -> Prompt:
    return Prompt(
        query=value["query"].strip(),
        expect=tuple(path.strip() for path in _as_list(value.get("expect"))),
        avoid=tuple(path.strip() for path in _as_list(value.get("avoid"))),
        is_ambiguous=value.get("ambiguous", False),
        scoping=Scoping(value.get("within") or "", value.get("category") or ""),
        origin=origin,
    )


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
