"""Test prompts with expected skills, from prompt files, examples and eval files.

Rule: errors are collected, so an author sees all of a file's errors in one run.

Eval files lie in the folder of a skill: `evals/evals.json` and YAML files in `evals` hold
tasks for a skill; `trigger_eval.json` tasks to trigger it, and near ones not to. Other
keys, such as the expected output, are not about routing.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from skills_mcp.errors import SkillDisabledError, SkillNotFoundError
from skills_mcp.features.authoring.cases import (
    EVALS,
    CaseFinding,
    EvalFile,
    EvalFileError,
    find_evals_folder,
    list_eval_files,
    parse_eval_file,
    read_eval_file,
)
from skills_mcp.skills.model import Skill
from skills_mcp.skills.skill_index import NO_FILTER, SkillFilter, SkillIndex, compute_filter_mask
from skills_mcp.text.rendering import abbreviate_value
from skills_mcp.text.safe_yaml import YamlError, parse_yaml

_YAML_SUFFIXES = frozenset({".yaml", ".yml"})
_KEYS = ("query", "expect", "avoid", "ambiguous", "within", "category")

# The first entry says how far all of them are indented.
_YAML_ENTRY = re.compile(r"^( *)-(?:\s|$)")

_MIN_SIMILARITY = 0.8  # of 1: `expects` and `ambigous` are slips, `tags` is not
_MAX_FINDINGS = 50

_MAX_PATH_CHARACTERS = 100  # a longer path is no slip, and takes long to compare
_MAX_SUGGESTIONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A task in a user's words, with its acceptable answers."""

    query: str
    expect: tuple[str, ...]
    avoid: tuple[str, ...] = ()
    is_ambiguous: bool = False
    """Whether an ambiguous answer with an expected candidate is correct."""
    scoping: SkillFilter = NO_FILTER
    origin: str
    """File and line, such as `prompts.jsonl:3`, or the file of a skill."""


class PromptsError(ValueError):
    """Invalid prompts; one line of the message per finding."""

    def __init__(self, findings: Iterable[CaseFinding]) -> None:
        self.findings = tuple(findings)
        lines = list(map(str, self.findings[:_MAX_FINDINGS]))
        more = len(self.findings) - len(lines)
        super().__init__("\n".join([*lines, *([f"and {more} more"] if more else [])]))


def load_prompts(file: Path) -> tuple[Prompt, ...]:
    """Load a prompt file: YAML by its suffix, else JSON Lines.

    Raises:
        PromptsError: Lists all invalid lines.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
        raise PromptsError([CaseFinding(str(file), reason)]) from error
    except UnicodeDecodeError as error:
        raise PromptsError([CaseFinding(str(file), "is not UTF-8 text")]) from error
    parse = _parse_yaml if file.suffix.lower() in _YAML_SUFFIXES else _parse_lines
    return parse_entries(parse(text, file.name))


def collect_examples(index: SkillIndex) -> tuple[Prompt, ...]:
    """Collect the `examples` of frontmatters as prompts."""
    return tuple(
        Prompt(query=query, expect=(skill.path,), origin=skill.file)
        for skill in index
        for query in skill.examples
    )


def parse_entries(entries: Iterable[tuple[str, Any]]) -> tuple[Prompt, ...]:
    """Parse `(origin, value)` pairs.

    Raises:
        PromptsError: Lists all invalid values.
    """
    return _require_valid(
        found for origin, value in entries for found in _parse_prompt(value, origin)
    )


def _parse_prompt(value: Any, origin: str) -> Sequence[Prompt | CaseFinding]:
    wrong = [value] if isinstance(value, CaseFinding) else [*_check(value, origin)]
    return wrong or [_build_prompt(value, origin)]


def _split(
    found: Iterable[Prompt | CaseFinding],
) -> tuple[tuple[Prompt, ...], tuple[CaseFinding, ...]]:
    parsed = [*found]
    prompts = tuple(entry for entry in parsed if isinstance(entry, Prompt))
    return prompts, tuple(entry for entry in parsed if isinstance(entry, CaseFinding))


def _require_valid(found: Iterable[Prompt | CaseFinding]) -> tuple[Prompt, ...]:
    prompts, findings = _split(found)
    if findings:
        raise PromptsError(findings)
    return prompts


def check_prompts(prompts: Iterable[Prompt], index: SkillIndex) -> None:
    """Check the existence of scopes and avoided skills.

    Raises:
        PromptsError: Lists each missing one with suggestions.
    """
    explain = cache(lambda scoping: _explain_empty_scope(scoping, index))
    findings = []
    for prompt in prompts:
        missing = (_suggest_paths(p, index) for p in prompt.avoid if index.get(p) is None)
        reasons = filter(None, (explain(prompt.scoping), *missing))
        findings += [CaseFinding(prompt.origin, reason) for reason in reasons]
    if findings:
        raise PromptsError(findings)


def describe_missing_skill(prompt: Prompt, index: SkillIndex) -> str:
    """Describe a missing expected skill; empty if at least one exists.

    A typing error or a moved skill fails only its own prompt.
    """
    if not prompt.expect or any(index.get(path) for path in prompt.expect):
        return ""
    return _suggest_paths(prompt.expect[0], index)


def _suggest_paths(path: str, index: SkillIndex) -> str:
    """Explain a missing path, with the nearest paths."""
    error = index.not_found(path)
    if isinstance(error, SkillDisabledError):
        return str(error)
    paths = [row.path for row in index.listed]
    last = path.rsplit("/", 1)[-1]
    named = [candidate for candidate in paths if candidate.rsplit("/", 1)[-1] == last]
    similar = named or get_close_matches(path[:_MAX_PATH_CHARACTERS], paths)
    hint = f": did you mean {' or '.join(similar[:_MAX_SUGGESTIONS])}?" if similar else ""
    return f"there is no skill {abbreviate_value(path)}{hint}"


def _explain_empty_scope(scoping: SkillFilter, index: SkillIndex) -> str:
    """Explain an empty scope; empty if the scope has skills."""
    try:
        compute_filter_mask(index, scoping)
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
            yield origin, CaseFinding(origin, f"is not JSON ({reason}): write {example}")


def _parse_yaml(text: str, name: str) -> Iterator[tuple[str, Any]]:
    try:
        values = parse_yaml(text)
    except YamlError as error:
        hint = "" if "line" in str(error) else "; a JSON Lines file has no size limit"
        yield name, CaseFinding(name, f"is not YAML that can be read: {error}{hint}")
        return
    if not isinstance(values, list):
        yield name, CaseFinding(name, "is not a list: write - query: … / expect: path")
        return
    lines = _find_item_lines(text)
    for number, value in enumerate(values):
        is_known = len(lines) == len(values)
        position = f":{lines[number]}" if is_known else f", entry {number + 1}"
        yield f"{name}{position}", value


def _find_item_lines(text: str) -> list[int]:
    found = [
        (len(match[1]), number)
        for number, line in enumerate(text.split("\n"), 1)
        if (match := _YAML_ENTRY.match(line))
    ]
    return [number for indent, number in found if indent == found[0][0]]


def _check(value: Any, origin: str) -> Iterator[CaseFinding]:
    if not isinstance(value, dict):
        yield CaseFinding(origin, f"is not a mapping, but {abbreviate_value(value)}")
        return
    yield from (CaseFinding(origin, reason) for reason in _find_errors(value))


def _find_errors(value: Mapping[str, Any]) -> Iterator[str]:
    if not _is_text(value.get("query")):
        yield "query is missing: write the task as a user would"
    yield from _check_answers(value)
    if not isinstance(value.get("ambiguous", False), bool):
        yield f"ambiguous must be true or false, not {abbreviate_value(value['ambiguous'])}"
    for key in ("within", "category"):
        if value.get(key) is not None and not _is_text(value[key]):
            yield f"{key} must be a text, not {abbreviate_value(value[key])}"
    for key in value:
        if key not in _KEYS:
            alike = get_close_matches(str(key), _KEYS, n=1, cutoff=_MIN_SIMILARITY)
            yield from (f"{abbreviate_value(key)} is unknown: did you mean {a}?" for a in alike)


def _check_answers(value: Mapping[str, Any]) -> Iterator[str]:
    expected, avoided = _as_list(value.get("expect")), _as_list(value.get("avoid"))
    if "expect" not in value and not avoided:
        yield "expect is missing: write a path, a list of paths, or null for no skill"
    elif not all(map(_is_text, expected)):
        wrong = abbreviate_value(value["expect"])
        yield f"expect must be a path, a list of paths or null, not {wrong}"
    elif value.get("ambiguous") is True and not expected:
        yield "ambiguous has no meaning where no skill is expected: delete it"
    if not all(map(_is_text, avoided)):
        yield f"avoid must be a path or a list of paths, not {abbreviate_value(value['avoid'])}"


def _build_prompt(value: Mapping[str, Any], origin: str) -> Prompt:
    return Prompt(
        query=value["query"].strip(),
        expect=tuple(path.strip() for path in _as_list(value.get("expect"))),
        avoid=tuple(path.strip() for path in _as_list(value.get("avoid"))),
        is_ambiguous=value.get("ambiguous", False),
        scoping=SkillFilter(value.get("within") or "", value.get("category") or ""),
        origin=origin,
    )


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


_FOLDERS = frozenset({".", "evals"})
_FILE_NAMES = frozenset(
    {"evals.json", "trigger_eval.json", "trigger_evals.json", "trigger-eval.json"}
    | {"trigger-evals.json", "eval_set.json", "trigger_eval_set.json"}
)
_TASK_KEYS = ("query", "prompt")


def load_tasks(file: Path) -> tuple[Prompt, ...]:
    """Load a prompt file or an eval file; eval files refer to skills by name only.

    Raises:
        PromptsError: Lists all invalid entries.
    """
    found = _load_evals(file) if file.suffix.lower() == ".json" else None
    if found is None:
        return load_prompts(file)
    return _require_valid(parse_evals(found, _find_skill_name(found, file), file.name))


def _load_evals(file: Path) -> EvalFile | None:
    """Parse an eval file; None for JSON Lines and other formats."""
    try:
        return parse_eval_file(json.loads(file.read_text(encoding="utf-8-sig")))
    except (OSError, ValueError, RecursionError):
        return None


def collect_evals(index: SkillIndex) -> tuple[tuple[Prompt, ...], tuple[CaseFinding, ...]]:
    """Collect the eval tasks of all skills, with unreadable entries.  Reads files."""
    return _split(
        found
        for skill in index
        for file in _list_evals(skill)
        for found in _read_evals(skill, file)
    )


def _list_evals(skill: Skill) -> list[str]:
    cases = list_eval_files(find_evals_folder(skill))
    return [*cases, *(file for file in skill.files if file not in cases and _is_evals(file))]


def _is_evals(file: str) -> bool:
    path = PurePosixPath(file)
    return path.name in _FILE_NAMES and str(path.parent) in _FOLDERS


def _read_evals(skill: Skill, file: str) -> Iterator[Prompt | CaseFinding]:
    folder = find_evals_folder(skill)
    if folder is None or skill.location is None:
        return
    inside = folder.relative_to(skill.location.parent).as_posix()
    origin = str(PurePosixPath(skill.file).parent / inside / file)
    try:
        found = read_eval_file(folder, file)
    except EvalFileError as error:
        yield CaseFinding(origin, str(error))
        return
    # In JSON the name is that of the owner; in YAML it is a path.
    named = "" if file.endswith(".json") else found.skill
    yield from parse_evals(found, named.strip("/") or skill.path, origin)


def _find_skill_name(found: EvalFile, file: Path) -> str:
    """Name of the evaluated skill: the one that the file names, else its folder."""
    folder = file.absolute().parent
    package = folder.parent if folder.name == EVALS else folder
    return found.skill.strip() or package.name


def parse_evals(found: EvalFile, skill: str, origin: str) -> Iterator[Prompt | CaseFinding]:
    """Parse the tasks of an eval file about one skill."""
    for number, entry in enumerate(found.entries, 1):
        where = f"{origin}, entry {number}"
        if isinstance(entry, dict) and entry.keys() & {"expect", "avoid"}:
            yield from _parse_prompt(entry, where)
        else:
            yield _parse_entry(entry, skill, where)


def _parse_entry(entry: Any, skill: str, origin: str) -> Prompt | CaseFinding:
    fields = entry if isinstance(entry, dict) else {}
    texts = [fields[key] for key in _TASK_KEYS if isinstance(fields.get(key), str)]
    query = next((text.strip() for text in texts if text.strip()), "")
    if not query:
        return CaseFinding(origin, f"has no query or prompt, but {abbreviate_value(entry)}")
    should = fields.get("should_trigger", True)
    if not isinstance(should, bool):
        reason = f"should_trigger must be true or false, not {abbreviate_value(should)}"
        return CaseFinding(origin, reason)
    expect, avoid = ((skill,), ()) if should else ((), (skill,))
    return Prompt(query=query, expect=expect, avoid=avoid, origin=origin)


def resolve_names(prompts: tuple[Prompt, ...], index: SkillIndex) -> tuple[Prompt, ...]:
    """Replace unambiguous skill names by paths."""
    paths: dict[str, list[str]] = {}
    for skill in index:
        paths.setdefault(skill.name, []).append(skill.path)

    def resolve(word: str) -> str:
        found = paths.get(word, [])
        return found[0] if index.get(word) is None and len(found) == 1 else word

    return tuple(
        replace(p, expect=tuple(map(resolve, p.expect)), avoid=tuple(map(resolve, p.avoid)))
        for p in prompts
    )
