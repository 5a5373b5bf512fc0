"""Eval files of skill-creator and other programs, in the folder of a skill.

`evals/evals.json` holds tasks for a skill; `trigger_eval.json` tasks to trigger it, and
near ones not to. Other keys, such as the expected output, are not about routing.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from skills_mcp.errors import MissingFileError
from skills_mcp.features.authoring.evaluation.prompts import (
    Prompt,
    PromptFinding,
    PromptsError,
    load_prompts,
)
from skills_mcp.files.opening import open_inside
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.model import Skill
from skills_mcp.text.rendering import abbreviate_value

_FOLDERS = frozenset({".", "evals"})
_FILE_NAMES = frozenset(
    {"evals.json", "trigger_eval.json", "trigger_evals.json", "trigger-eval.json"}
    | {"trigger-evals.json", "eval_set.json", "trigger_eval_set.json"}
)
_MAX_BYTES = 1024 * 1024
_ENTRIES = "evals"
_TASK_KEYS = ("query", "prompt")
_SHAPE = 'a list of {"query": …, "should_trigger": true}, or {"evals": [{"prompt": …}]}'


def load_tasks(file: Path) -> tuple[Prompt, ...]:
    """Load a prompt file or an eval file; eval files refer to skills by name only.

    Raises:
        PromptsError: Lists all invalid entries.
    """
    data = _load_evals(file) if file.suffix.lower() == ".json" else None
    if data is None:
        return load_prompts(file)
    found = [*parse_evals(data, _find_skill_name(data, file), file.name)]
    findings = [entry for entry in found if isinstance(entry, PromptFinding)]
    if findings:
        raise PromptsError(findings)
    return tuple(entry for entry in found if isinstance(entry, Prompt))


def _load_evals(file: Path) -> Any:
    """Parse an eval file; None for JSON Lines and other formats."""
    try:
        data = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None
    return data if _has_tasks(data) else None


def collect_evals(
    index: SkillIndex,
) -> tuple[tuple[Prompt, ...], tuple[PromptFinding, ...]]:
    """Collect the eval tasks of all packages, with unreadable entries.  Reads files."""
    prompts: list[Prompt] = []
    findings: list[PromptFinding] = []
    for skill in index:
        for file in filter(_is_evals, skill.files):
            origin = str(PurePosixPath(skill.file).parent / file)
            for found in _read_evals(skill, file, origin):
                if isinstance(found, PromptFinding):
                    findings.append(found)
                else:
                    prompts.append(found)
    return tuple(prompts), tuple(findings)


def _is_evals(file: str) -> bool:
    path = PurePosixPath(file)
    return path.name in _FILE_NAMES and str(path.parent) in _FOLDERS


def _read_evals(skill: Skill, file: str, origin: str) -> Iterator[Prompt | PromptFinding]:
    if skill.location is None:
        return
    try:
        with open_inside(skill.location.parent, tuple(file.split("/"))) as handle:
            data = json.loads(handle.read(_MAX_BYTES))
    except (OSError, MissingFileError, ValueError, RecursionError):
        yield PromptFinding(origin, f"is not JSON that can be read: write {_SHAPE}")
        return
    yield from parse_evals(data, skill.path, origin)


def _has_tasks(data: Any) -> bool:
    return isinstance(data, list) or (
        isinstance(data, dict) and isinstance(data.get(_ENTRIES), list)
    )


def _find_skill_name(data: Any, file: Path) -> str:
    """Name of the evaluated skill: its `skill_name`, else its folder."""
    named = data.get("skill_name") if isinstance(data, dict) else None
    folder = file.absolute().parent
    package = folder.parent if folder.name == _ENTRIES else folder
    return named if isinstance(named, str) and named.strip() else package.name


def parse_evals(data: Any, skill: str, origin: str) -> Iterator[Prompt | PromptFinding]:
    """Parse the tasks of an eval file about one skill."""
    if not _has_tasks(data):
        yield PromptFinding(origin, f"has no list of tasks: write {_SHAPE}")
        return
    entries = data if isinstance(data, list) else data[_ENTRIES]
    for number, entry in enumerate(entries, 1):
        yield _parse_entry(entry, skill, f"{origin}, entry {number}")


def _parse_entry(entry: Any, skill: str, origin: str) -> Prompt | PromptFinding:
    fields = entry if isinstance(entry, dict) else {}
    texts = [fields[key] for key in _TASK_KEYS if isinstance(fields.get(key), str)]
    query = next((text.strip() for text in texts if text.strip()), "")
    if not query:
        return PromptFinding(origin, f"has no query or prompt, but {abbreviate_value(entry)}")
    should = fields.get("should_trigger", True)
    if not isinstance(should, bool):
        reason = f"should_trigger must be true or false, not {abbreviate_value(should)}"
        return PromptFinding(origin, reason)
    if should:
        return Prompt(query=query, expect=(skill,), origin=origin)
    return Prompt(query=query, expect=(), avoid=(skill,), origin=origin)


def resolve_names(prompts: tuple[Prompt, ...], index: SkillIndex) -> tuple[Prompt, ...]:
    """Replace unambiguous skill names by paths."""
    paths: dict[str, list[str]] = {}
    for skill in index:
        paths.setdefault(skill.name, []).append(skill.path)

    def resolve(word: str) -> str:
        found = paths.get(word, [])
        return found[0] if index.get(word) is None and len(found) == 1 else word

    return tuple(
        replace(
            prompt,
            expect=tuple(map(resolve, prompt.expect)),
            avoid=tuple(map(resolve, prompt.avoid)),
        )
        for prompt in prompts
    )
