"""Rule files: Markdown in a tree of rules."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from skills_mcp.errors import InvalidPathError
from skills_mcp.files.paths import parse_relative
from skills_mcp.skills.document import (
    EMPTY_SCALARS,
    get_always_apply,
    get_examples,
    get_flag,
    get_owner,
    get_priority,
    get_text,
    get_words,
    parse_document,
    unique_words,
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
from skills_mcp.text.rendering import abbreviate_value


def parse_rule_file(
    text: str, *, file: str, directory: Path | None
) -> tuple[Skill | None, tuple[Problem, ...]]:
    """Parse a rule file to a skill and its problems.

    No content of a file raises. Only keywords and description decide whether a file is
    a skill; a wrong value anywhere else is reported, and its default is used.
    """
    report = ProblemList(file)
    document = parse_document(text, report, lenient=False)
    if document is None:
        return None, report.problems
    fields = document.fields
    keywords = _parse_rule_keywords(fields, report)
    description = _parse_rule_description(fields, report)
    if not keywords or not description:
        return None, report.problems

    path = derive_rule_path(file)
    assets, scripts = (
        tuple(_parse_assets(fields, report)),
        tuple(_parse_scripts(fields, report)),
    )
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
        inherit=get_flag(fields, "inherit", report, default=True),
        priority=get_priority(fields, report),
        assets=assets,
        scripts=scripts,
        directory=directory,
        category=get_text(fields, "category").casefold(),
        owner=get_owner(fields),
        examples=get_examples(fields.get("examples"), report),
        always_apply=get_always_apply(fields, report),
    )
    return skill, report.problems


def derive_rule_path(file: str) -> SkillPath:
    """Derive the skill path of a rule file.

    >>> derive_rule_path("ui/react/auth.md")
    'ui/react/auth'
    """
    return SkillPath(file.removesuffix(".md"))


def _parse_rule_keywords(fields: Mapping[str, Any], report: ProblemList) -> tuple[str, ...]:
    value = fields.get("keywords")
    hint = "write a list: keywords: [react, auth, login]"
    if "keywords" not in fields:
        report.fail("no-keywords", "has no keywords", hint)
        return ()
    if not isinstance(value, list):
        reason = "has no keywords" if value in (None, "") else "has keywords, not a list"
        report.fail("keywords", reason, hint, key="keywords")
        return ()
    keywords = unique_words(get_words(fields, "keywords"))
    if not keywords:
        hint = "write what a developer would type: [react]"
        report.fail("keywords", "has no keywords", hint, key="keywords")
    elif len(keywords) < len(value):
        report.warn(
            "keywords",
            "has keywords that are empty, repeated or no text",
            "keep each word once",
            key="keywords",
        )
    return keywords


def _parse_rule_description(fields: Mapping[str, Any], report: ProblemList) -> str:
    description = get_text(fields, "description")
    if not description:
        report.fail(
            "description",
            "has no description",
            "add one sentence that says when the skill applies: description: …",
            key="description",
        )
    return description


def _parse_assets(fields: Mapping[str, Any], report: ProblemList) -> Iterator[Asset]:
    for entry in _parse_entries(fields, "assets", report):
        yield Asset(
            file=entry["file"],
            description=_get_stripped(entry, "description"),
            type=_get_stripped(entry, "type") or "other",
        )


def _parse_scripts(fields: Mapping[str, Any], report: ProblemList) -> Iterator[Script]:
    for entry in _parse_entries(fields, "scripts", report):
        execution = _get_stripped(entry, "execution") or "claude"
        if execution not in {"claude", "server"}:
            report.warn(
                "execution",
                f"has execution: {abbreviate_value(execution)} for {entry['file']}, so claude "
                "is used",
                "write claude (the agent runs it) or server (run_script runs it)",
                key="scripts",
            )
        yield Script(
            file=entry["file"],
            description=_get_stripped(entry, "description"),
            # Never to the server's side by a spelling mistake.
            execution="server" if execution == "server" else "claude",
            args=tuple(_parse_arguments(entry, report)),
        )


def _parse_arguments(script: Mapping[str, Any], report: ProblemList) -> Iterator[Argument]:
    for entry in _parse_mappings(script, "args", "name", report):
        yield Argument(
            name=entry["name"],
            description=_get_stripped(entry, "description"),
            required=get_flag(entry, "required", report, default=True),
        )


def _parse_entries(
    fields: Mapping[str, Any], key: str, report: ProblemList
) -> Iterator[Mapping[str, Any]]:
    for entry in _parse_mappings(fields, key, "file", report):
        try:
            parse_relative(entry["file"])
        except InvalidPathError:
            report.warn(
                "file-outside",
                f"declares {abbreviate_value(entry['file'])}, which is not inside its folder",
                "use a relative path without .. and with forward slashes",
                key=key,
            )
        else:
            yield entry


def _parse_mappings(
    fields: Mapping[str, Any], key: str, required: str, report: ProblemList
) -> Iterator[Mapping[str, Any]]:
    value = fields.get(key)
    hint = f"write: {key}: / - {required}: …"
    entries = value if isinstance(value, list) else []
    for entry in entries:
        if isinstance(entry, dict) and _get_stripped(entry, required):
            yield {**entry, required: _get_stripped(entry, required)}
        else:
            reason = f"has an entry in {key} without {required}"
            report.warn(f"{key}-entry", reason, hint, key=key)
    if not isinstance(value, list) and value not in (None, *EMPTY_SCALARS):
        report.warn(f"{key}-type", f"has {key}, not a list", hint, key=key)


def _get_stripped(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    return value.strip() if isinstance(value, str) else ""
