"""Skills for an agent that loads them step by step, free of any framework.

The prompt has names and descriptions alone; texts and files come when a tool asks.
Everything about skills is asked of `SyncSkills`; here are limits and formats.
"""

import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Self

import anyio.to_thread
from pydantic import Field

from skills_mcp.api.in_process import Skills, SyncSkills
from skills_mcp.api.open_skills import (
    Place,
    derive_sources,
    list_folders,
    open_sync,
)
from skills_mcp.errors import CommandsDisabledError, ConfigError
from skills_mcp.features.frameworks.tool_text import (
    ToolText,
    render_examples,
    render_file,
    render_files,
    render_folder,
    render_list,
    render_refresh,
    render_route,
    render_run,
    render_search,
    render_skill,
)
from skills_mcp.library import MAX_LISTED_FILES, Refreshed
from skills_mcp.skills.model import Skill

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from skills_mcp.library.catalog import SkillCatalog

TOOLS = (
    "list_available_skills",
    "load_skill",
    "find_skill_files",
    "read_skill_file",
    "load_skill_examples",
)
"""The tools that an agent always has."""

ENTRY_TOOL = "run_skill_entry"
"""The tool that it has if `allow_run_entry` is true."""

EXTRA_TOOLS = ("get_skill", "search_skills", "refresh_skills", "report_usage")
"""The tools that a program may add."""

_TIMEOUT_SECONDS = 60
_DEFAULT_LINES = 200
_DEFAULT_EXAMPLES = 3
_MAX_EXAMPLE_BYTES = 65_536  # of one file, as in the answers of tools
_EVERY = 10**9  # skills in a list, and bytes of it: no limit

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
_Name = Annotated[
    str, Field(description="The name or the path of the skill, as the list has it.")
]


@dataclass(frozen=True, slots=True)
class SkillExample:
    """An example of a skill: a file of its `examples` folder."""

    path: Path
    title: str
    tags: tuple[str, ...]
    content: str
    """Without the frontmatter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillRecord:
    """A skill as it lies on the disk."""

    name: str
    description: str
    path: Path
    """The Markdown file, `SKILL.md` for a package."""
    directory: Path
    """The folder of the skill's files."""
    content: str
    """Its own text, without the frontmatter and without the rules that it inherits."""
    entry: str | None
    """The command that `run_skill_entry` runs."""
    examples: tuple[SkillExample, ...]
    skill_path: str
    """Its place in the tree, which no other skill has."""


def discover_skills(roots: Place | Sequence[Place]) -> dict[str, SkillRecord]:
    """Return the skills of some folders by their names.

    Skills with the same name are all there: each under its path instead of its name.

    Args:
        roots: A folder, or several; `~` is your home.

    Raises:
        ConfigError: A folder does not exist.
    """
    with SkillToolkit(roots) as toolkit:
        return toolkit.read_records()


class SkillToolkit:
    """What the tools of an agent do; each method returns the text for the model.

    Opened by its first use. `with` closes it, or `close`; skills that the program
    opened itself stay open. It is thread-safe.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the signature that users know
        self,
        roots: Place | Sequence[Place] | None = None,
        max_files: int = 25,
        max_chars: int = 12_000,
        read_max_lines: int = 250,
        allow_run_entry: bool = False,  # noqa: FBT001, FBT002 - as above
        command_timeout: int = _TIMEOUT_SECONDS,
        allowed_entry_programs: Sequence[str] | None = None,
        *,
        skills: Skills | SyncSkills | None = None,
        repo: str | None = None,
        extra_tools: Sequence[str] | None = None,
    ) -> None:
        """Name the skills, in one of three ways, and the limits.

        Args:
            roots: A folder with skills, or several; `~` is your home.
            max_files: As many files `load_skill` names.
            max_chars: The most characters of one text.
            read_max_lines: The most lines of one text, even if a model wants more.
            allow_run_entry: Whether a model may run the entries of skills.
            command_timeout: Seconds after which an entry is ended.
            allowed_entry_programs: Programs that an entry may start; without it
                those of the setting `commands.allowed`.
            skills: Open skills, instead of `roots`. Their own settings hold for
                entries.
            repo: The URL of a Git repository, instead of `roots`.
            extra_tools: Names from `EXTRA_TOOLS`. Without it, there is
                `search_skills` if the list of skills is longer than `max_chars`.
        """
        self.max_files = max_files
        self.max_chars = max_chars
        self.read_max_lines = read_max_lines
        self.allow_run_entry = allow_run_entry
        self._extra_tools = _list_names(extra_tools)
        self._roots = None if roots is None else list_folders(roots)
        self._repo = repo
        self._skills = skills
        self._command_timeout = command_timeout
        self._allowed_programs = _list_names(allowed_entry_programs)
        self._opened: SyncSkills | None = None
        self._lock = Lock()
        self._listed: tuple[tuple[str, int], SkillCatalog] | None = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def open(self) -> SyncSkills:
        """Return the skills, open. The first call waits for the content.

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
        """Close the skills if they were opened here. Again, it does nothing."""
        with self._lock:
            if self._opened is not None and self._skills is None:
                self._opened.close()

    # What a program asks

    def build_prompt(self) -> str:
        """Return what a system prompt says: how to use skills, and which there are."""
        catalog = self._compose_list()
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
        """Return every skill with its text and its examples, by its name.

        Of skills with the same name, each is under its path.
        """
        every = self.open().compose_catalog(
            "lines", max_entries=_EVERY, max_bytes=_EVERY
        )
        return {entry.name: _read_record(entry.skill) for entry in every.entries}

    def refresh(self) -> Refreshed:
        """Read the folders again, or fetch the repository; `error` says what failed."""
        return self.open().refresh()

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The tools of an agent, in the order in which it gets them."""
        extra = self._extra_tools
        if extra is None:
            extra = ["search_skills"] if self._compose_list().truncated else []
        entry = (ENTRY_TOOL,) if self.allow_run_entry else ()
        return (*TOOLS, *entry, *(name for name in EXTRA_TOOLS if name in extra))

    def get_tools(self) -> list["BaseTool"]:
        """Return the tools for LangChain and LangGraph; see `build_agent_tools`."""
        from skills_mcp.features.frameworks.agent_tools import wrap_functions

        self.open()  # a wrong argument is told now, not to a model
        functions = [getattr(self, name) for name in self.tool_names]
        waiting: dict[str, Callable[..., Awaitable[ToolText]]] = {
            ENTRY_TOOL: self.arun_skill_entry,
            "refresh_skills": self.arefresh,
        }
        return wrap_functions(functions, waiting)

    # What a model asks: the docstrings are what it reads

    def list_available_skills(self) -> ToolText:
        """List the skills, each with its name and what it is for."""
        can_search = self._extra_tools is None or "search_skills" in self._extra_tools
        return render_list(self._compose_list(), can_search=can_search)

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
        """List files of a skill: all of them, or those that fit."""
        found = self.open().find_files(
            skill_name, pattern=pattern or "**/*", contains=contains
        )
        return render_files(found, self.max_chars)

    def read_skill_file(
        self,
        skill_name: _Name,
        relative_path: Annotated[str, Field(description=_FILE)],
        start_line: Annotated[int, Field(description="The first line to read.")] = 1,
        max_lines: Annotated[
            int, Field(description="The most lines to read.")
        ] = _DEFAULT_LINES,
    ) -> ToolText:
        """Read lines of a skill's file, with their numbers; a folder is listed."""
        skills = self.open()
        skill = skills.find_files(skill_name).skill
        if (folder := render_folder(skill, relative_path, self.max_chars)) is not None:
            return folder
        most = max(1, min(max_lines, self.read_max_lines))
        # Without lines, a file that is no text, or a very long one, can be read, too.
        lines = {"start_line": start_line, "max_lines": most} if start_line > 1 else {}
        read = skills.read(skill_name, relative_path, **lines)
        return render_file(read, max_lines=most, max_chars=self.max_chars)

    def load_skill_examples(
        self,
        skill_name: _Name,
        query: Annotated[str, Field(description="What you want an example of.")],
        top_k: Annotated[
            int, Field(description="How many examples, from 1 to 10.")
        ] = _DEFAULT_EXAMPLES,
    ) -> ToolText:
        """Return the examples of a skill that fit a query best."""
        served = self.open().load_examples(skill_name, query, top_k=top_k)
        return render_examples(served, self.max_chars)

    def run_skill_entry(
        self,
        skill_name: _Name,
        args: Annotated[str, Field(description=_ARGUMENTS)] = "",
    ) -> ToolText:
        """Run the entry of a skill in a copy of its folder, which is deleted then."""
        self._require_entries()
        return render_run(self.open().run_entry(skill_name, args), self.max_chars)

    async def arun_skill_entry(self, skill_name: str, args: str = "") -> ToolText:
        """Run the entry of a skill; if the caller is cancelled, it is ended."""
        self._require_entries()
        skills = await anyio.to_thread.run_sync(self.open)
        ran = await skills.to_async().run_entry(skill_name, args)
        return render_run(ran, self.max_chars)

    def get_skill(
        self,
        context: Annotated[str, Field(description="The task, in your own words.")],
        skill_path: Annotated[str, Field(description=_PICK)] = "",
    ) -> ToolText:
        """Find the skill for a task, and return its instructions."""
        answer = self.open().route(context, skill_path=skill_path or None)
        return render_route(answer, max_files=self.max_files, max_chars=self.max_chars)

    def search_skills(
        self, query: Annotated[str, Field(description="A task, a question, or a name.")]
    ) -> ToolText:
        """List the skills that fit a query best, each with its path."""
        return render_search(self.open().search(query))

    def refresh_skills(self) -> ToolText:
        """Bring the newest skills, and say which have changed."""
        return _tell(self.refresh())

    async def arefresh(self) -> ToolText:
        """Bring the newest skills; the event loop is not blocked."""
        skills = await anyio.to_thread.run_sync(self.open)
        return _tell(await skills.to_async().refresh())

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

    def _compose_list(self) -> "SkillCatalog":
        """Return the list, which costs half a second for 10,000 skills: once."""
        skills = self.open()
        key = skills.revision, self.max_chars
        listed = self._listed  # another thread may replace it
        if listed is None or listed[0] != key:
            catalog = skills.compose_catalog("lines", max_bytes=self.max_chars)
            self._listed = listed = key, catalog
        return listed[1]

    def _require_entries(self) -> None:
        if not self.allow_run_entry:
            raise CommandsDisabledError(
                "Entries are not run here (allow_run_entry is false). Do its steps "
                "yourself, or build the tools with allow_run_entry=True."
            )

    def _require_one_source(self) -> None:
        given = {"roots": self._roots, "repo": self._repo, "skills": self._skills}
        named = [name for name, value in given.items() if value is not None]
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

    def _open(self) -> SyncSkills:
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
            settings["sources"] = derive_sources(self._roots, everywhere=True)
        return open_sync(repo=self._repo, config=settings).open()


def _list_names(names: Sequence[str] | None) -> list[str] | None:
    """Return the names; a single one may be given as it is."""
    return [names] if isinstance(names, str) else None if names is None else list(names)


def _require_folders(roots: Sequence[str]) -> None:
    missing = [root for root in roots if not Path(root).is_dir()]
    if missing or not roots:
        raise ConfigError(
            f"roots: there is no folder {', '.join(missing) or 'at all'}. Create it, "
            "correct the path, or leave it out"
        )


def _read_record(skill: Skill) -> SkillRecord:
    from skills_mcp.skills.examples import read_examples

    path = skill.location or Path(skill.file)
    directory = skill.directory or path.parent
    examples, _ = read_examples(
        skill, max_bytes=_MAX_EXAMPLE_BYTES, max_files=MAX_LISTED_FILES
    )
    return SkillRecord(
        name=skill.name,
        description=skill.description,
        path=path,
        directory=directory,
        content=skill.body,
        entry=shlex.join(skill.entry) or None,
        examples=tuple(
            SkillExample(
                directory / (each.file or ""), each.title, each.tags, each.text
            )
            for each in examples
        ),
        skill_path=skill.path,
    )


def _tell(refreshed: Refreshed) -> ToolText:
    if refreshed.error:
        raise refreshed.error
    return render_refresh(refreshed)
