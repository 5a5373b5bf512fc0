"""Texts for the model in tool results.  Pure.

Rule: no text exceeds its caller's limit, apart from truncation notices and tags.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Self
from xml.sax.saxutils import quoteattr

from skills_mcp.library import (
    FoundFiles,
    Match,
    Provenance,
    RanScript,
    ReadFile,
    Refreshed,
    ServedExamples,
)
from skills_mcp.library.catalog import CatalogEntry, SkillCatalog, render_catalog_line
from skills_mcp.routing.decision import Ambiguous, NoMatch
from skills_mcp.routing.matcher import Candidate
from skills_mcp.routing.search import SearchResult
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.skill_examples import FittingExample
from skills_mcp.skills.skill_parser import is_skill_md
from skills_mcp.text.rendering import truncate_text

_TRUNCATED = "(Truncated)"
_MAX_DESCRIPTION = 1024  # the most that the Agent Skills standard allows
_MAX_LISTED_CHANGES = 50  # changed skills in one text

# A skill's own text must not end the element that it stands in.
_CLOSING_TAGS = re.compile("</(?=(skill_content|skill_files|example)\\b)", re.IGNORECASE)


class ToolText(str):
    """Text for a model with the same `data` for a program."""

    __slots__ = ("data",)

    data: Mapping[str, Any]

    def __new__(cls, text: str, data: Mapping[str, Any] | None = None) -> Self:
        made = super().__new__(cls, text)
        made.data = data or {}
        return made


def render_skill_list(catalog: SkillCatalog, *, can_search: bool) -> ToolText:
    lines = [render_catalog_line(entry) for entry in catalog.entries]
    if catalog.truncated:
        more = " Find the others with search_skills." if can_search else ""
        lines.append(f"{_TRUNCATED} {len(lines):,} of {catalog.total:,} skills.{more}")
    skills = [{"name": entry.name, **_describe_skill(entry.skill)} for entry in catalog.entries]
    data = {"skills": skills, "total": catalog.total, "truncated": catalog.truncated}
    return ToolText("\n".join(lines) or "There are no skills.", data)


def render_skill(
    skill: Skill, instructions: str, provenance: Provenance, *, max_files: int, max_chars: int
) -> ToolText:
    text, is_cut = _truncate(instructions, max_chars)
    text = _CLOSING_TAGS.sub("&lt;/", text)
    if is_cut:
        main = next(filter(is_skill_md, skill.files), None)
        rest = f" Read the rest of {main!r} with read_skill_file." if main else ""
        text += f"\n{_TRUNCATED}{rest}"
    files = [file for file in skill.files if not is_skill_md(file)]
    listed_files, omitted = files[:max_files], len(files[max_files:])
    entry = shlex.join(skill.entry)
    parts = [text, *([f"Entry: {entry}"] if entry else [])]
    if files:
        more = [f"({omitted:,} more: find_skill_files lists them)"] if omitted else []
        parts.append("\n".join(["<skill_files>", *listed_files, *more, "</skill_files>"]))
    head = f"name={quoteattr(skill.name)} path={quoteattr(skill.path)}"
    data = {
        "name": skill.name,
        **_describe_skill(skill),
        "path": str(skill.directory) if skill.directory else None,
        "instructions": instructions,
        "truncated": is_cut,
        "files": listed_files,
        "files_truncated": omitted > 0,
        **({"entry": entry} if entry else {}),
        **_provenance_fields(provenance),
    }
    body = "\n\n".join(parts)
    return ToolText(f"<skill_content {head}>\n{body}\n</skill_content>", data)


def render_found_files(found: FoundFiles, max_chars: int) -> ToolText:
    text, is_cut = _truncate_lines(found.files, max_chars)
    is_cut = is_cut or found.truncated
    rendered = text or "No file of this skill fits."
    if is_cut:
        rendered += f"\n{_TRUNCATED} Use a narrower pattern."
    files = list(found.files)
    data = {"skill_path": found.skill.path, "files": files, "truncated": is_cut}
    return ToolText(rendered, data | _provenance_fields(found.provenance))


def render_folder(skill: Skill, folder: str, max_chars: int) -> ToolText | None:
    """Entries of a folder, subfolders with a slash; None if there is none."""
    top = folder.strip("/").removeprefix("./")
    top = "" if top in {"", "."} else f"{top}/"
    inside = [file.removeprefix(top) for file in skill.files if file.startswith(top)]
    if top and not inside:
        return None
    parts = (file.partition("/") for file in inside)
    names = sorted({name + slash for name, slash, _ in parts})
    text, is_cut = _truncate_lines(names, max_chars)
    rendered = f"{text}\n{_TRUNCATED}" if is_cut else text
    data = {"skill_path": skill.path, "folder": top, "entries": names}
    return ToolText(rendered or "This skill has no files.", data)


def render_file_lines(read: ReadFile, *, max_lines: int, max_chars: int) -> ToolText:
    part = read.part
    data: dict[str, Any] = {"skill_path": read.skill.path, "file_path": read.file}
    data |= {"size_bytes": part.size_bytes, **_provenance_fields(read.provenance)}
    if read.resolved_from:
        data["resolved_from"] = read.resolved_from
    if part.content.is_binary:
        kind = part.content.mime_type
        text = f"{read.file} is no text: {kind}, {part.size_bytes:,} bytes."
        return ToolText(text, {**data, "mime_type": kind, "is_binary": True})
    start = part.start_line or 1
    text_of_part = part.content.data.decode("utf-8").removesuffix("\n")
    lines = [line.removesuffix("\r") for line in text_of_part.split("\n")] if text_of_part else []
    numbered = [f"{n}: {line}" for n, line in enumerate(lines[:max_lines], start)]
    text, _ = _truncate_lines(numbered, max_chars)
    line_count = text.count("\n") + 1 if text else 0
    is_line_cut = line_count == 1 and text != numbered[0]
    is_cut = part.truncated or line_count < len(lines) or is_line_cut
    data |= {"content": "\n".join(lines[:line_count]), "start_line": start}
    data |= {"end_line": start + line_count - 1, "truncated": is_cut}
    if is_cut:
        data["next_line"] = start + line_count
        text += f"\n{_TRUNCATED} Read on with start_line={start + line_count}."
    return ToolText(text or f"{read.file} is empty.", data)


def render_examples(served: ServedExamples, max_chars: int) -> ToolText:
    """An `<example>` each; the budget goes to the best first."""
    budget = max_chars
    texts: list[str] = []
    examples: list[dict[str, Any]] = []
    for fitting in served.loaded.examples:
        text, is_cut = _truncate(fitting.example.text, budget)
        budget -= len(text)
        is_cut = is_cut or fitting.example.truncated
        texts.append(_render_example(fitting, text, is_cut=is_cut))
        examples.append(
            {
                "title": fitting.example.title,
                "file": fitting.example.file,
                "tags": list(fitting.example.tags),
                "score": fitting.score,
                "text": text,
                "truncated": is_cut,
            }
        )
    data = {
        "skill_path": served.loaded.skill.path,
        "examples": examples,
        "total": served.loaded.total,
        **_provenance_fields(served.provenance),
    }
    return ToolText("\n".join(texts) or "This skill has no examples.", data)


def _render_example(fitting: FittingExample, text: str, *, is_cut: bool) -> str:
    example = fitting.example
    attributes = {"title": example.title, "file": example.file or ""}
    attributes |= {"tags": ", ".join(example.tags), "score": str(fitting.score)}
    head = " ".join(f"{key}={quoteattr(value)}" for key, value in attributes.items() if value)
    cut = f"\n{_TRUNCATED}" if is_cut else ""
    return f"<example {head}>\n{_CLOSING_TAGS.sub('&lt;/', text)}{cut}\n</example>"


def render_command_result(ran: RanScript, max_chars: int) -> ToolText:
    result = ran.result
    command = shlex.join(ran.words)
    # A program says at the end of stderr what went wrong; stdout has the rest.
    stderr, err_cut = _truncate(result.stderr, max_chars // 2 if result.stdout else max_chars)
    stdout, out_cut = _truncate(result.stdout, max_chars - len(stderr))
    parts = [f"exit_code: {result.exit_code}", f"command: {command}"]
    if not result.confined:
        parts.append("not confined: it could read and change what this account can")
    if result.timed_out:
        parts.append(f"timed out after {result.duration_seconds:.0f} s")
    streams = (
        ("stdout", stdout, out_cut or result.truncated_stdout),
        ("stderr", stderr, err_cut or result.truncated_stderr),
    )
    for name, text, is_cut in streams:
        parts += [f"{name}:\n{text.rstrip()}"] if text else []
        parts += [_TRUNCATED] if is_cut else []
    data = {
        "exit_code": result.exit_code,
        "command": list(ran.words),
        "stdout": stdout,
        "stderr": stderr,
        "timeout": result.timed_out,
        "truncated": {name: is_cut for name, _, is_cut in streams},
        "sandbox": result.sandbox,
        "confined": result.confined,
        **_provenance_fields(ran.provenance),
    }
    return ToolText("\n".join(parts), data)


def render_routing_answer(
    answer: Match | Ambiguous | NoMatch, *, max_files: int, max_chars: int
) -> ToolText:
    match answer:
        case Match():
            skill, provenance = answer.skill, answer.provenance
            limits = {"max_files": max_files, "max_chars": max_chars}
            text = render_skill(skill, answer.content, provenance, **limits)
            return ToolText(text, {**text.data, "score": float(answer.score)})
        case Ambiguous():
            heading = "Several skills fit. Call get_skill again with one skill_path of:"
            return _render_choice(heading, "candidates", answer.candidates)
        case NoMatch():
            heading = "No skill fits this task."
            if answer.near:
                heading += " These are the nearest ones; take one, or go on without:"
            return _render_choice(heading, "near", answer.near)


def _render_choice(heading: str, key: str, found: Sequence[Candidate]) -> ToolText:
    listed = [{**_describe_skill(c.skill), "score": float(c.score)} for c in found]
    lines = [heading, *(_render_skill_line(candidate.skill) for candidate in found)]
    return ToolText("\n".join(lines), {key: listed})


def render_search(found: SearchResult) -> ToolText:
    hits = [
        {
            "name": hit.skill.name,
            **_describe_skill(hit.skill),
            "score": round(hit.score, 4),
            "reason": hit.reason,
        }
        for hit in found.hits
    ]
    text = "\n".join(_render_skill_line(hit.skill) for hit in found.hits)
    none = "No skill fits. Go on without one, or try other words once."
    return ToolText(text or none, {"skills": hits, "total": found.total})


def render_refresh(refreshed: Refreshed) -> ToolText:
    changes = refreshed.changes
    lists = {name: list(getattr(changes, name)) for name in ("added", "changed", "removed")}
    lines = [f"{name}: {_list_changes(paths)}" for name, paths in lists.items() if paths]
    text = "\n".join(lines) or "Nothing has changed."
    return ToolText(text, {**lists, "commit": refreshed.commit})


def _list_changes(paths: Sequence[SkillPath]) -> str:
    more = len(paths[_MAX_LISTED_CHANGES:])
    return ", ".join(paths[:_MAX_LISTED_CHANGES]) + (f" and {more:,} more" if more else "")


def _render_skill_line(skill: Skill) -> str:
    line = render_catalog_line(CatalogEntry(skill, skill.path))
    return truncate_text(line, len(skill.path) + _MAX_DESCRIPTION)


def _describe_skill(skill: Skill) -> dict[str, Any]:
    description = truncate_text(skill.description, _MAX_DESCRIPTION)
    return {"skill_path": skill.path, "description": description}


def _provenance_fields(provenance: Provenance) -> dict[str, Any]:
    return {"commit": provenance.commit, "source_path": provenance.path}


def _truncate(text: str, limit: int) -> tuple[str, bool]:
    """Truncate a text, at the end of a line if there is one."""
    if len(text) <= limit:
        return text, False
    part = text[: max(0, limit)]
    return part[: part.rfind("\n") + 1].rstrip("\n") or part, True


def _truncate_lines(lines: Sequence[str], limit: int) -> tuple[str, bool]:
    """Truncate to whole lines; the first may be cut."""
    return _truncate("\n".join(lines), limit)
