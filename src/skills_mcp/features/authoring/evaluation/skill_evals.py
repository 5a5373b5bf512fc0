"""Tasks in the files that skill-creator and other programs write beside a skill.

`evals/evals.json` holds tasks that a skill is for, and `trigger_eval.json` tasks that
should find it, and near ones that should not. What else is in them, such as the
expected output, is about the agent's work and not about routing.
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
from skills_mcp.text.rendering import shorten

_FOLDERS = frozenset({".", "evals"})
_NAMES = frozenset(
    {"evals.json", "trigger_eval.json", "trigger_evals.json", "trigger-eval.json"}
    | {"trigger-evals.json", "eval_set.json", "trigger_eval_set.json"}
)
_MAX_BYTES = 1024 * 1024
_ENTRIES = "evals"
_TASK_KEYS = ("query", "prompt")
_SHAPE = 'a list of {"query": …, "should_trigger": true}, or {"evals": [{"prompt": …}]}'


def load_tasks(file: Path) -> tuple[Prompt, ...]:
    """Read a file of prompts, or one of such tasks: then a skill has only its name.

    Raises:
        PromptsError: Naming everything that is wrong.
    """
    data = _load_evals(file) if file.suffix.lower() == ".json" else None
    if data is None:
        return load_prompts(file)
    found = [*parse_evals(data, _find_skill_name(data, file), file.name)]
    findings = [each for each in found if isinstance(each, PromptFinding)]
    if findings:
        raise PromptsError(findings)
    return tuple(each for each in found if isinstance(each, Prompt))


def _load_evals(file: Path) -> Any:
    """Return the document if it has the shape; JSON Lines and others have not."""
    try:
        data = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None
    return data if _has_tasks(data) else None


def collect_evals(
    index: SkillIndex,
) -> tuple[tuple[Prompt, ...], tuple[PromptFinding, ...]]:
    """Return the tasks of all packages, and what could not be read as such.

    Reads the files of the packages.
    """
    prompts: list[Prompt] = []
    findings: list[PromptFinding] = []
    for skill in index:
        for file in filter(_is_evals, skill.files):
            origin = str(PurePosixPath(skill.file).parent / file)
            for found in _read(skill, file, origin):
                if isinstance(found, PromptFinding):
                    findings.append(found)
                else:
                    prompts.append(found)
    return tuple(prompts), tuple(findings)


def _is_evals(file: str) -> bool:
    place = PurePosixPath(file)
    return place.name in _NAMES and str(place.parent) in _FOLDERS


def _read(skill: Skill, file: str, origin: str) -> Iterator[Prompt | PromptFinding]:
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
    """Whether a JSON document has the shape of such a file."""
    return isinstance(data, list) or (
        isinstance(data, dict) and isinstance(data.get(_ENTRIES), list)
    )


def _find_skill_name(data: Any, file: Path) -> str:
    """Return the name of the skill that a file is about: it says so, or lies in it."""
    named = data.get("skill_name") if isinstance(data, dict) else None
    folder = file.absolute().parent
    package = folder.parent if folder.name == _ENTRIES else folder
    return named if isinstance(named, str) and named.strip() else package.name


def parse_evals(data: Any, skill: str, origin: str) -> Iterator[Prompt | PromptFinding]:
    """Iterate over the tasks of a file.

    Args:
        data: The JSON document.
        skill: The path or the name of the skill that the tasks are about.
        origin: The file.
    """
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
        return PromptFinding(origin, f"has no query or prompt, but {shorten(entry)}")
    should = fields.get("should_trigger", True)
    if not isinstance(should, bool):
        reason = f"should_trigger must be true or false, not {shorten(should)}"
        return PromptFinding(origin, reason)
    if should:
        return Prompt(query=query, expect=(skill,), origin=origin)
    return Prompt(query=query, expect=(), avoid=(skill,), origin=origin)


def resolve_names(prompts: tuple[Prompt, ...], index: SkillIndex) -> tuple[Prompt, ...]:
    """Return the prompts with a path where they have a name that only one skill has."""
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
