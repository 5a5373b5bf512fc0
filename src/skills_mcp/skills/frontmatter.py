"""From a Markdown file in a tree of rules to a skill.

Rule 1: nothing that a file holds raises; what cannot be used is a `Problem`.
Rule 2: only keywords and description decide whether a file is a skill. A wrong
value anywhere else is reported, and its default is used.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from skills_mcp.errors import InvalidPathError
from skills_mcp.files.paths import parse_relative
from skills_mcp.skills.document import (
    EMPTY,
    always_apply_of,
    distinct,
    examples_of,
    flag_of,
    owner_of,
    parse_document,
    priority_of,
    text_of,
    words_of,
)
from skills_mcp.skills.model import (
    Argument,
    Asset,
    Problem,
    ProblemList,
    Script,
    Skill,
    SkillPath,
)
from skills_mcp.text.rendering import shorten


def parse_skill(
    text: str, *, file: str, directory: Path | None
) -> tuple[Skill | None, tuple[Problem, ...]]:
    """Return the skill that `text` describes, and what is wrong with it.

    Args:
        text: The whole file.
        file: Its path relative to the content's root, for messages and headers.
        directory: The folder with its assets and scripts, if there is one.
    """
    report = ProblemList(file)
    document = parse_document(text, report, lenient=False)
    if document is None:
        return None, report.problems
    fields = document.fields
    keywords = _keywords(fields, report)
    description = _description(fields, report)
    if not keywords or not description:
        return None, report.problems

    path = derive_path(file)
    assets, scripts = tuple(_assets(fields, report)), tuple(_scripts(fields, report))
    if directory is None and (assets or scripts):
        report.warn(
            "resource-folder",
            "declares assets or scripts, but has no folder for them",
            f"put the files into {path}/, beside the Markdown file",
            key="assets" if assets else "scripts",
        )
        assets, scripts = (), ()  # nothing to hand out (001 §7.1)
    skill = Skill(
        path=path,
        file=file,
        name=path.rsplit("/", 1)[-1],
        description=description,
        keywords=keywords,
        body=document.body,
        inherit=flag_of(fields, "inherit", report, default=True),
        priority=priority_of(fields, report),
        assets=assets,
        scripts=scripts,
        directory=directory,
        category=text_of(fields, "category").casefold(),
        owner=owner_of(fields),
        examples=examples_of(fields.get("examples"), report),
        always_apply=always_apply_of(fields, report),
    )
    return skill, report.problems


def derive_path(file: str) -> SkillPath:
    """Return a file's skill path.

    >>> derive_path("ui/react/auth.md")
    'ui/react/auth'
    """
    return SkillPath(file.removesuffix(".md"))


def _keywords(fields: Mapping[str, Any], report: ProblemList) -> tuple[str, ...]:
    value = fields.get("keywords")
    hint = "write a list: keywords: [react, auth, login]"
    if "keywords" not in fields:
        report.fail("no-keywords", "has no keywords", hint)
        return ()
    if not isinstance(value, list):
        reason = (
            "has no keywords" if value in (None, "") else "has keywords, not a list"
        )
        report.fail("keywords", reason, hint, key="keywords")
        return ()
    kept = distinct(words_of(fields, "keywords"))
    if not kept:
        hint = "write what a developer would type: [react]"
        report.fail("keywords", "has no keywords", hint, key="keywords")
    elif len(kept) < len(value):
        report.warn(
            "keywords",
            "has keywords that are empty, repeated or no text",
            "keep each word once",
            key="keywords",
        )
    return kept


def _description(fields: Mapping[str, Any], report: ProblemList) -> str:
    description = text_of(fields, "description")
    if not description:
        report.fail(
            "description",
            "has no description",
            "add one sentence that says when the skill applies: description: …",
            key="description",
        )
    return description


def _assets(fields: Mapping[str, Any], report: ProblemList) -> Iterator[Asset]:
    for entry in _entries(fields, "assets", report):
        yield Asset(
            file=entry["file"],
            description=_text(entry, "description"),
            type=_text(entry, "type") or "other",
        )


def _scripts(fields: Mapping[str, Any], report: ProblemList) -> Iterator[Script]:
    for entry in _entries(fields, "scripts", report):
        execution = _text(entry, "execution") or "claude"
        if execution not in {"claude", "server"}:
            report.warn(
                "execution",
                f"has execution: {shorten(execution)} for {entry['file']}, so claude "
                "is used",
                "write claude (the agent runs it) or server (run_script runs it)",
                key="scripts",
            )
        yield Script(
            file=entry["file"],
            description=_text(entry, "description"),
            # Never to the server's side by a spelling mistake.
            execution="server" if execution == "server" else "claude",
            args=tuple(_arguments(entry, report)),
        )


def _arguments(script: Mapping[str, Any], report: ProblemList) -> Iterator[Argument]:
    for entry in _mappings(script, "args", "name", report):
        yield Argument(
            name=entry["name"],
            description=_text(entry, "description"),
            required=flag_of(entry, "required", report, default=True),
        )


def _entries(
    fields: Mapping[str, Any], key: str, report: ProblemList
) -> Iterator[Mapping[str, Any]]:
    """Iterate over declared files, without those that could leave the folder."""
    for entry in _mappings(fields, key, "file", report):
        try:
            parse_relative(entry["file"])
        except InvalidPathError:
            report.warn(
                "file-outside",
                f"declares {shorten(entry['file'])}, which is not inside its folder",
                "use a relative path without .. and with forward slashes",
                key=key,
            )
        else:
            yield entry


def _mappings(
    fields: Mapping[str, Any], key: str, required: str, report: ProblemList
) -> Iterator[Mapping[str, Any]]:
    value = fields.get(key)
    hint = f"write: {key}: / - {required}: …"
    entries = value if isinstance(value, list) else []
    for entry in entries:
        if isinstance(entry, dict) and _text(entry, required):
            yield {**entry, required: _text(entry, required)}
        else:
            reason = f"has an entry in {key} without {required}"
            report.warn(f"{key}-entry", reason, hint, key=key)
    if not isinstance(value, list) and value not in (None, *EMPTY):
        report.warn(f"{key}-type", f"has {key}, not a list", hint, key=key)


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    return value.strip() if isinstance(value, str) else ""
