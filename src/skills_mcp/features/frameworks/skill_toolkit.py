"""Tools for agents with progressive loading, independent of any framework.

The prompt has names and descriptions only; texts and files come by tool calls. The
logic is in `SyncSkills`; here are limits and formats. No text exceeds its caller's limit,
apart from truncation notices and tags.
"""

import inspect
import re
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Self, get_type_hints
from xml.sax.saxutils import quoteattr

import anyio.to_thread
from pydantic import BaseModel, Field, ValidationError, create_model

from skills_mcp.api import in_process
from skills_mcp.errors import CommandsDisabledError, ConfigError, InvalidArgumentsError, SkillsError
from skills_mcp.library import (
    DEFAULT_EXAMPLES,
    DEFAULT_LINES,
    MAX_LISTED_FILES,
    FoundFiles,
    Match,
    Provenance,
    RanScript,
    ReadFile,
    Refreshed,
    ServedExamples,
    render_error,
)
from skills_mcp.library.catalog import CatalogEntry, SkillCatalog, render_catalog_line
from skills_mcp.routing.decision import Ambiguous, NoMatch
from skills_mcp.routing.matcher import Candidate
from skills_mcp.routing.search import SearchResult
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.skill_examples import FittingExample
from skills_mcp.skills.skill_parser import MAX_DESCRIPTION, is_skill_md
from skills_mcp.text.rendering import truncate_text

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool, ToolException


TOOLS = (
    "list_available_skills",
    "load_skill",
    "find_skill_files",
    "read_skill_file",
    "load_skill_examples",
)

ENTRY_TOOL = "run_skill_entry"

EXTRA_TOOLS = ("get_skill", "search_skills", "refresh_skills", "report_usage")

_TIMEOUT_SECONDS = 60
_MAX_EXAMPLE_BYTES = 65_536  # of one file, as in the answers of tools
_UNLIMITED = 10**9  # skills in a list, and bytes of it: no limit

_PROMPT = """\
Skills are instructions and files for certain kinds of tasks.
Before you begin a task, look for a skill in the list that fits it. Load it by its \
name with load_skill, and follow what it says. Load only what fits, and each skill once.
Read the files that a skill names with read_skill_file; find_skill_files lists them, \
and load_skill_examples shows how the skill is used.
"""
_PROMPT_ENTRY = "Run the entry that a skill declares with run_skill_entry.\n"
_PROMPT_ROUTE = "If you see none that fits, describe the task to get_skill.\n"

# What a model reads of the arguments of its tools.
_PATTERN = "A pattern of paths, such as references/*.md."
_CONTAINS = "Only files with this text, in any case."
_FILE = "The path of a file or folder, from the folder of the skill."
_ARGUMENTS = "More words for the command, with quotes as for a shell."
_PICK = "The skill to take, if an earlier answer named several."
_COMMENT = "What was good or bad about it."
_Name = Annotated[str, Field(description="The name or the path of the skill, as the list has it.")]


_TRUNCATED = "(Truncated)"
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
    text, is_cut = _truncate("\n".join(found.files), max_chars)
    is_cut = is_cut or found.truncated
    rendered = text or "No file of this skill fits."
    if is_cut:
        rendered += f"\n{_TRUNCATED} Use a narrower pattern."
    data = {"skill_path": found.skill.path, "files": [*found.files], "truncated": is_cut}
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
    text, is_cut = _truncate("\n".join(names), max_chars)
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
    text, _ = _truncate("\n".join(numbered), max_chars)
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
            limits = {"max_files": max_files, "max_chars": max_chars}
            text = render_skill(answer.skill, answer.content, answer.provenance, **limits)
            return ToolText(text, {**text.data, "score": answer.score})
        case Ambiguous():
            heading = "Several skills fit. Call get_skill again with one skill_path of:"
            if answer.is_low_confidence:
                heading = "These may fit. Call get_skill again with a skill_path, or go on without:"
            return _render_choice(heading, "candidates", answer.candidates)
        case NoMatch():
            heading = "No skill fits this task."
            if answer.near:
                heading += " These are the nearest ones; take one, or go on without:"
            return _render_choice(heading, "near", answer.near)


def _render_choice(heading: str, key: str, found: Sequence[Candidate]) -> ToolText:
    listed = [{**_describe_skill(c.skill), "score": c.score} for c in found]
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
    """Render the changes; raise the error of a failed refresh."""
    if refreshed.error:
        raise refreshed.error
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
    return truncate_text(line, len(skill.path) + MAX_DESCRIPTION)


def _describe_skill(skill: Skill) -> dict[str, Any]:
    description = truncate_text(skill.description, MAX_DESCRIPTION)
    return {"skill_path": skill.path, "description": description}


def _provenance_fields(provenance: Provenance) -> dict[str, Any]:
    return {"commit": provenance.commit, "source_path": provenance.path}


def _truncate(text: str, limit: int) -> tuple[str, bool]:
    """Truncate a text to whole lines; the first may be cut."""
    if len(text) <= limit:
        return text, False
    part = text[: max(0, limit)]
    return part[: part.rfind("\n") + 1].rstrip("\n") or part, True


@dataclass(frozen=True, slots=True)
class SkillExample:
    path: Path
    title: str
    tags: tuple[str, ...]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillRecord:
    name: str
    description: str
    path: Path
    directory: Path
    content: str
    """Its own text, without frontmatter and inherited rules."""
    entry: str | None
    examples: tuple[SkillExample, ...]
    skill_path: str


def discover_skills(roots: in_process.Place | Sequence[in_process.Place]) -> dict[str, SkillRecord]:
    """Skills of folders by name; skills sharing a name are under their paths.

    Raises:
        ConfigError: A folder does not exist.
    """
    with SkillToolkit(roots) as toolkit:
        return toolkit.read_records()


class SkillToolkit:
    """Implementation of the agent's tools; each returns the text for the model.

    Opened on first use, closed by `with` or `close`; skills passed in stay open.
    Thread-safe.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the signature that users know
        self,
        roots: in_process.Place | Sequence[in_process.Place] | None = None,
        max_files: int = 25,
        max_chars: int = 12_000,
        read_max_lines: int = 250,
        allow_run_entry: bool = False,  # noqa: FBT001, FBT002 - as above
        command_timeout: int = _TIMEOUT_SECONDS,
        allowed_entry_programs: Sequence[str] | None = None,
        *,
        skills: in_process.Skills | in_process.SyncSkills | None = None,
        repo: str | None = None,
        extra_tools: Sequence[str] | None = None,
    ) -> None:
        """Choose the skills, in one of three ways, and the limits.

        Args:
            roots: A folder with skills, or several; `~` is expanded.
            max_files: Limit of file names in `load_skill`.
            max_chars: Limit of characters of one text.
            read_max_lines: Upper bound of the model's `max_lines`.
            allow_run_entry: Whether a model may run the entries of skills.
            command_timeout: Timeout of an entry in seconds.
            allowed_entry_programs: Programs for entries; default `commands.allowed`.
            skills: Open skills, instead of `roots`, with their own settings for
            entries.
            repo: URL of a Git repository, instead of `roots`.
            extra_tools: Names from `EXTRA_TOOLS`. Default: `search_skills` if the list of
                skills exceeds `max_chars`.
        """
        self.max_files = max_files
        self.max_chars = max_chars
        self.read_max_lines = read_max_lines
        self.allow_run_entry = allow_run_entry
        self._extra_tools = _to_list(extra_tools)
        self._roots = None if roots is None else in_process.resolve_folders(roots)
        self._repo = repo
        self._skills = skills
        self._command_timeout = command_timeout
        self._allowed_programs = _to_list(allowed_entry_programs)
        self._opened: in_process.SyncSkills | None = None
        self._offered: Sequence[str] = ()
        self._lock = Lock()
        self._cached_catalog: tuple[tuple[str, int], SkillCatalog] | None = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def open(self) -> in_process.SyncSkills:
        """Open the skills. The first call waits for the content.

        Raises:
            ConfigError: A folder does not exist, or the arguments contradict.
            SyncError: The repository cannot be fetched.
        """
        with self._lock:
            if self._opened is None:
                self._require_one_source()
                self._opened = self._open()
            return self._opened

    def close(self) -> None:
        with self._lock:
            if self._opened is not None and self._skills is None:
                self._opened.close()

    # What a program asks

    def build_prompt(self) -> str:
        catalog = self._get_catalog()
        names = [entry.name for entry in catalog.entries if entry.skill.always_apply]
        usage = _PROMPT
        if self.allow_run_entry:
            usage += _PROMPT_ENTRY
        if "get_skill" in self.tool_names:
            usage += _PROMPT_ROUTE
        if names:
            usage += f"Load these before any task: {', '.join(names)}.\n"
        return f"{usage}\nAvailable skills:\n{self.list_available_skills()}\n"

    def read_records(self) -> dict[str, SkillRecord]:
        """Every skill with text and examples by name; by path if names collide."""
        catalog = self.open().compose_catalog("lines", max_entries=_UNLIMITED, max_bytes=_UNLIMITED)
        return {entry.name: _read_record(entry.skill) for entry in catalog.entries}

    def refresh(self) -> Refreshed:
        """Reload the folders or the repository; see `error` for a failure."""
        return self.open().refresh()

    @property
    def tool_names(self) -> tuple[str, ...]:
        extra = self._extra_tools
        if extra is None:
            extra = ["search_skills"] if self._get_catalog().truncated else []
        entry = (ENTRY_TOOL,) if self.allow_run_entry else ()
        return (*TOOLS, *entry, *(name for name in EXTRA_TOOLS if name in extra))

    def get_tools(self) -> list["BaseTool"]:
        self.open()  # a wrong argument is told now, not to a model
        self._offered = self.tool_names
        # `async` programs await these; other functions run in a thread.
        coroutines: dict[str, Callable[..., Awaitable[ToolText]]] = {
            ENTRY_TOOL: self.arun_skill_entry,
            "refresh_skills": self.arefresh,
        }
        return [
            _to_langchain_tool(getattr(self, name), coroutines.get(name), self._offered)
            for name in self._offered
        ]

    # What a model asks: the docstrings are what it reads

    def list_available_skills(self) -> ToolText:
        """List the skills with their names and descriptions."""
        can_search = "search_skills" in (self._offered or self.tool_names)
        return render_skill_list(self._get_catalog(), can_search=can_search)

    def load_skill(self, skill_name: _Name) -> ToolText:
        """Return the instructions of a skill, and some of its files."""
        loaded = self.open().load(skill_name)
        return render_skill(
            loaded.skill,
            loaded.instructions,
            loaded.provenance,
            max_files=self.max_files,
            max_chars=self.max_chars,
        )

    def find_skill_files(
        self,
        skill_name: _Name,
        pattern: Annotated[str, Field(description=_PATTERN)] = "**/*",
        contains: Annotated[str, Field(description=_CONTAINS)] = "",
    ) -> ToolText:
        """List all or some files of a skill."""
        found = self.open().find_files(skill_name, pattern=pattern or "**/*", contains=contains)
        return render_found_files(found, self.max_chars)

    def read_skill_file(
        self,
        skill_name: _Name,
        relative_path: Annotated[str, Field(description=_FILE)],
        start_line: Annotated[int, Field(description="The first line to read.")] = 1,
        max_lines: Annotated[int, Field(description="The most lines to read.")] = DEFAULT_LINES,
    ) -> ToolText:
        """Read lines of a skill's file, with their numbers; a folder is listed."""
        skills = self.open()
        skill = skills.find_files(skill_name).skill
        if (folder := render_folder(skill, relative_path, self.max_chars)) is not None:
            return folder
        limit = max(1, min(max_lines, self.read_max_lines))
        # Without lines, a file that is no text, or a very long one, can be read, too.
        lines = {"start_line": start_line, "max_lines": limit} if start_line > 1 else {}
        read = skills.read(skill_name, relative_path, **lines)
        return render_file_lines(read, max_lines=limit, max_chars=self.max_chars)

    def load_skill_examples(
        self,
        skill_name: _Name,
        query: Annotated[str, Field(description="What you want an example of.")],
        top_k: Annotated[
            int, Field(description="How many examples, from 1 to 10.")
        ] = DEFAULT_EXAMPLES,
    ) -> ToolText:
        """Return the examples of a skill that fit a query best."""
        served = self.open().load_examples(skill_name, query, top_k=top_k)
        return render_examples(served, self.max_chars)

    def run_skill_entry(
        self, skill_name: _Name, args: Annotated[str, Field(description=_ARGUMENTS)] = ""
    ) -> ToolText:
        """Run the entry of a skill in a copy of its folder, which is deleted then."""
        self._require_entries()
        return render_command_result(self.open().run_entry(skill_name, args), self.max_chars)

    async def arun_skill_entry(self, skill_name: str, args: str = "") -> ToolText:
        self._require_entries()
        skills = await anyio.to_thread.run_sync(self.open)
        ran = await skills.to_async().run_entry(skill_name, args)
        return render_command_result(ran, self.max_chars)

    def get_skill(
        self,
        context: Annotated[str, Field(description="The task, in your own words.")],
        skill_path: Annotated[str, Field(description=_PICK)] = "",
    ) -> ToolText:
        """Find the skill for a task, and return its instructions."""
        answer = self.open().route(context, skill_path=skill_path or None)
        return render_routing_answer(answer, max_files=self.max_files, max_chars=self.max_chars)

    def search_skills(
        self, query: Annotated[str, Field(description="A task, a question, or a name.")]
    ) -> ToolText:
        """List the skills that fit a query best, each with its path."""
        return render_search(self.open().search(query))

    def refresh_skills(self) -> ToolText:
        """Bring the newest skills, and say which have changed."""
        return render_refresh(self.refresh())

    async def arefresh(self) -> ToolText:
        skills = await anyio.to_thread.run_sync(self.open)
        return render_refresh(await skills.to_async().refresh())

    def report_usage(
        self,
        skill_path: Annotated[str, Field(description="The path of the skill.")],
        *,
        useful: Annotated[bool, Field(description="Whether it helped.")],
        comment: Annotated[str, Field(description=_COMMENT)] = "",
    ) -> ToolText:
        """Report whether a skill helped with the task."""
        self.open().report(skill_path, useful=useful, comment=comment or None)
        return ToolText("Recorded.", {"recorded": True})

    def _get_catalog(self) -> SkillCatalog:
        """List of skills, cached: it takes half a second for 10,000 skills."""
        skills = self.open()
        key = skills.revision, self.max_chars
        listed = self._cached_catalog  # another thread may replace it
        if listed is None or listed[0] != key:
            catalog = skills.compose_catalog("lines", max_bytes=self.max_chars)
            self._cached_catalog = listed = key, catalog
        return listed[1]

    def _require_entries(self) -> None:
        if not self.allow_run_entry:
            raise CommandsDisabledError(
                "Entries are not run here (allow_run_entry is false). Do its steps "
                "yourself, or build the tools with allow_run_entry=True."
            )

    def _require_one_source(self) -> None:
        sources = {"roots": self._roots, "repo": self._repo, "skills": self._skills}
        named = [name for name, value in sources.items() if value is not None]
        if len(named) != 1:
            raise ConfigError(
                f"{' and '.join(named) or 'nothing'} was given: pass either roots, the "
                "folders with the skills, or repo, or open skills"
            )
        has_limits = self._command_timeout != _TIMEOUT_SECONDS
        if self._skills and (has_limits or self._allowed_programs is not None):
            raise ConfigError(
                "command_timeout and allowed_entry_programs: open skills have settings "
                "of their own. Write commands.timeout_seconds and commands.allowed "
                "into the config of skills_mcp.open"
            )
        if unknown := set(self._extra_tools or ()) - set(EXTRA_TOOLS):
            raise ConfigError(
                f"extra_tools: there is no {', '.join(sorted(unknown))}. Choose from "
                f"{', '.join(EXTRA_TOOLS)}"
            )

    def _open(self) -> in_process.SyncSkills:
        if self._skills is not None:
            return self._skills.to_sync()
        commands: dict[str, Any] = {
            "enabled": self.allow_run_entry,
            "timeout_seconds": self._command_timeout,
        }
        if self._allowed_programs is not None:
            commands["allowed"] = self._allowed_programs
        settings: dict[str, Any] = {"commands": commands}
        if self._roots is not None:
            _require_folders(self._roots)
            settings["sources"] = in_process.derive_mounted_sources(self._roots, everywhere=True)
        return in_process.open_sync(repo=self._repo, config=settings).open()


def _to_list(names: Sequence[str] | None) -> list[str] | None:
    return [names] if isinstance(names, str) else None if names is None else list(names)


def _require_folders(roots: Sequence[str]) -> None:
    missing = [root for root in roots if not Path(root).is_dir()]
    if missing or not roots:
        raise ConfigError(
            f"roots: there is no folder {', '.join(missing) or 'at all'}. Create it, "
            "correct the path, or leave it out"
        )


def _read_record(skill: Skill) -> SkillRecord:
    from skills_mcp.skills.skill_examples import read_examples

    path = skill.location or Path(skill.file)
    directory = skill.directory or path.parent
    examples, _ = read_examples(skill, max_bytes=_MAX_EXAMPLE_BYTES, max_files=MAX_LISTED_FILES)
    return SkillRecord(
        name=skill.name,
        description=skill.description,
        path=path,
        directory=directory,
        content=skill.body,
        entry=shlex.join(skill.entry) or None,
        examples=tuple(
            SkillExample(directory / (e.file or ""), e.title, e.tags, e.text) for e in examples
        ),
        skill_path=skill.path,
    )


# A message of the library names tools of the server that are not here.
_OTHER_TOOLS = {
    "list_skills or search_skills": "list_available_skills",
    ", or run one of its files with run_skill_command": "",
    # Of a tool that is here only if the program wants it.
    "Call refresh_skills, then ask again.": "Go on without it, and tell the user.",
    "; if it has come since the skills were read, call refresh_skills.": ".",
}

_Answer = tuple[str, dict[str, Any]]
_Tool = Callable[..., ToolText]


def _to_langchain_tool(
    function: _Tool, coroutine: Callable[..., Awaitable[ToolText]] | None, offered: Sequence[str]
) -> "BaseTool":
    from langchain_core.tools import StructuredTool

    @wraps(function)
    def call(**arguments: Any) -> _Answer:
        try:
            return _to_langchain_answer(function(**arguments))
        except SkillsError as error:
            raise _to_tool_exception(error, offered) from error

    async def wait(**arguments: Any) -> _Answer:
        try:
            return _to_langchain_answer(await coroutine(**arguments))  # type: ignore[misc]
        except SkillsError as error:
            raise _to_tool_exception(error, offered) from error

    return StructuredTool.from_function(
        func=call,
        coroutine=wait if coroutine else None,
        description=inspect.getdoc(function),
        args_schema=_derive_schema(function),
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=_render_validation_error,
    )


def _derive_schema(function: _Tool) -> type[BaseModel]:
    """Arguments as a model; LangChain's own renames `args`, as for `*args`."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        parameter.name: (
            hints[parameter.name],
            ... if parameter.default is parameter.empty else parameter.default,
        )
        for parameter in inspect.signature(function).parameters.values()
    }
    return create_model(function.__name__, **fields)


def _to_langchain_answer(text: ToolText) -> _Answer:
    return str(text), {"structured_content": dict(text.data)}


def _to_tool_exception(error: SkillsError, offered: Sequence[str]) -> "ToolException":
    from langchain_core.tools import ToolException

    rendered = render_error(error)
    message = rendered["message"]
    for theirs, ours in _OTHER_TOOLS.items():
        if "refresh_skills" not in theirs or "refresh_skills" not in offered:
            message = message.replace(theirs, ours)
    return ToolException(f"{rendered['code']}: {message}")


def _render_validation_error(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)
    wrong = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in found)
    return f"{InvalidArgumentsError.code}: {'; '.join(wrong)}"


@dataclass(frozen=True, slots=True)
class SkillCapability:
    prompt: str
    tools: "list[BaseTool]"
    toolkit: SkillToolkit


def build_agent_tools(toolkit: SkillToolkit) -> "list[BaseTool]":
    """LangChain tools of a toolkit; `artifact["structured_content"]` has the data."""
    return toolkit.get_tools()


def build_skill_capability(  # noqa: PLR0913, PLR0917 - the signature that users know
    roots: in_process.Place | Sequence[in_process.Place] | None = None,
    max_files: int = 25,
    max_chars: int = 12_000,
    read_max_lines: int = 250,
    allow_run_entry: bool = False,  # noqa: FBT001, FBT002 - as above
    command_timeout: int = 60,
    allowed_entry_programs: Sequence[str] | None = None,
    *,
    skills: in_process.Skills | in_process.SyncSkills | None = None,
    repo: str | None = None,
    extra_tools: Sequence[str] | None = None,
) -> SkillCapability:
    """Open skills and build prompt and tools; see `SkillToolkit` for arguments.

    Blocks until there is content.

    Raises:
        ConfigError: A folder does not exist, or the arguments contradict.
        SyncError: The repository cannot be fetched.
    """
    toolkit = SkillToolkit(
        roots,
        max_files,
        max_chars,
        read_max_lines,
        allow_run_entry,
        command_timeout,
        allowed_entry_programs,
        skills=skills,
        repo=repo,
        extra_tools=extra_tools,
    )
    return SkillCapability(toolkit.build_prompt(), build_agent_tools(toolkit), toolkit)
