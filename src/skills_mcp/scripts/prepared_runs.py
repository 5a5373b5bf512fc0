"""Prepared runs: the skill's bytes in a private folder, inside the sandbox.

A script runs from a copy of the bytes as read, with links to its neighbours. A command
runs in a writable copy of the skill, because a snapshot is shared by all processes and
immutable.
"""

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from skills_mcp.config import Config, Scripts
from skills_mcp.errors import (
    FileTooLargeError,
    FolderNotAllowedError,
    InvalidArgumentsError,
)
from skills_mcp.files.locks import locked_temporary_folder
from skills_mcp.files.paths import expand_home_folder, find_user_home, parse_relative
from skills_mcp.files.user_folders import find_user_folders
from skills_mcp.scripts import policy
from skills_mcp.scripts.execution import CONFINING_TIERS, Grants, PreparedCommand, SandboxName
from skills_mcp.scripts.policy import CommandRequest, ScriptRequest, keep_absolute_folders
from skills_mcp.scripts.sandbox import (
    Sandbox,
    find_executable,
    find_program_folders,
    translate_preparation_errors,
)
from skills_mcp.skills.inheritance import find_script_in_lineage
from skills_mcp.skills.model import Script, Skill
from skills_mcp.skills.skill_files import copy_skill_files, open_fetched_file
from skills_mcp.skills.skill_index import SkillIndex

_WORKING_DIRECTORY = "."


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptEnvironment:
    """Parts of the server's environment used to derive runs."""

    variables: Mapping[str, str]
    """All environment variables; a run inherits few."""
    home: Path
    own_folders: tuple[Path, ...]
    started_in: Path | None
    """Working directory of the server; None if missing."""
    sandbox: Sandbox

    @classmethod
    def of(
        cls,
        variables: Mapping[str, str],
        offered: Sequence[SandboxName] = CONFINING_TIERS,
    ) -> "ScriptEnvironment":
        home = Path(variables.get("HOME") or find_user_home()).resolve()
        own = find_user_folders(variables, str(home))
        try:
            started_in = Path.cwd().resolve()
        except OSError:
            started_in = None
        search_path = keep_absolute_folders(variables.get("PATH", os.defpath))
        return cls(
            variables=variables,
            home=home,
            own_folders=tuple(Path(folder).resolve() for folder in own),
            started_in=started_in,
            sandbox=Sandbox(home, search_path, offered),
        )

    def require_folder(self, cwd: str, rules: Scripts) -> Path:
        """Resolve the working directory of a script.

        Raises:
            InvalidArgumentsError: It is no absolute path of a folder.
            FolderNotAllowedError: It is not below `scripts.roots`, or in or above a
            folder
                closed to scripts.
        """
        # os.path: a name that no file system takes is no folder, and no exception.
        if not (os.path.isabs(cwd) and os.path.isdir(cwd)):  # noqa: PTH112, PTH117
            raise InvalidArgumentsError(
                "cwd: must be the absolute path of a folder that exists. Leave it out "
                "to run in an empty folder."
            )
        folder = Path(cwd).resolve()
        roots = [root for root in self._resolve_roots(rules) if folder.is_relative_to(root)]
        if not any(self._is_accessible(folder, root) for root in roots):
            raise FolderNotAllowedError(
                "cwd: lies in no folder that scripts may see here. Pass the project's "
                "folder, or leave cwd out; the operator can add folders "
                "(scripts.roots)."
            )
        return folder

    def _resolve_roots(self, rules: Scripts) -> list[Path]:
        roots = [
            expand_home_folder(root, self.home)
            for root in rules.roots
            if root != _WORKING_DIRECTORY
        ]
        working_directory = self.started_in
        # An agent that is started there has no project, and all of them are below.
        if (
            _WORKING_DIRECTORY in rules.roots
            and working_directory
            and not self.home.is_relative_to(working_directory)
        ):
            roots.append(working_directory)
        return [root.resolve() for root in roots]

    def _is_accessible(self, folder: Path, root: Path) -> bool:
        """Whether a script may access a folder below a root.

        The home as a whole and our own folders stay closed. So do hidden folders of the
        home, with keys of other programs, unless a root names one.
        """
        closed = (self.home, *self.own_folders)
        if any(closed_folder.is_relative_to(folder) for closed_folder in closed):
            return False
        if any(map(folder.is_relative_to, self.own_folders)):
            return False
        if not folder.is_relative_to(self.home):
            return True
        first = folder.relative_to(self.home).parts[0]
        return not first.startswith(".") or root.is_relative_to(self.home / first)


MAX_SCRIPT_BYTES = 16 * 1024 * 1024
"""A hundred times the longest public script: it is held in memory."""

_UV = "uv"
_PYTHON = frozenset({"python", "python3"})

_FOLDER_PREFIX = "skills-mcp-run-"


@dataclass(frozen=True, slots=True)
class PermittedScript:
    """A script permitted by every rule, with its bytes."""

    skill: Skill
    owner: Skill
    """Declaring skill: the same, or an ancestor."""
    script: Script
    arguments: Mapping[str, str]
    data: bytes
    runner: tuple[str, ...]
    cwd: Path | None


@dataclass(frozen=True, slots=True)
class PreparedRun:
    command: PreparedCommand
    sha256: str | None
    """Digest of the script, or of a command's first file argument."""
    words: tuple[str, ...] = ()
    """Command line without sandbox prefix; empty for a script."""


@dataclass(frozen=True, slots=True)
class PrivateFolder:
    """Folder of one run with access for our account only."""

    path: Path

    @property
    def home(self) -> Path:
        return self.path / "home"

    @property
    def copy(self) -> Path:
        return self.path / "skill"

    @property
    def variables(self) -> dict[str, str]:
        names = ("HOME", "TMPDIR", "TEMP", "TMP", "USERPROFILE")
        return dict.fromkeys(names, str(self.home))


def permit_script(
    request: ScriptRequest,
    index: SkillIndex,
    rules: Scripts,
    script_environment: ScriptEnvironment,
) -> PermittedScript:
    """Apply every rule to a request.  Blocking: reads the script.

    Raises:
        ScriptRefusedError: A rule forbids it; see the subclass.
        SkillNotFoundError: There is no such skill.
        InvalidPathError: The file could lie outside the skill's folder.
        MissingFileError: The script is declared, but missing.
        ChangedFileError: It has changed since indexing.
        FileTooLargeError: It exceeds `MAX_SCRIPT_BYTES`.
        InvalidArgumentsError: `cwd` is no absolute folder, or an argument is
        undeclared,
            too long, or invalid in an environment variable.
    """
    policy.require_scripts_enabled(rules)
    skill = index.resolve(request.skill_path)
    parse_relative(request.file)
    # Inherited scripts are offered by get_skill, so they can be run, too.
    found = find_script_in_lineage(index, skill, request.file)
    script = policy.require_declared_script(skill.path, request.file, found)
    owner = found.owner if found else skill
    policy.require_server_execution(skill.path, script)
    policy.require_arguments(script, request.args)
    policy.require_allowed_extension(rules, script.file)
    data = _read_script(owner, script.file)
    runner = policy.derive_runner(rules, script.file)
    cwd = script_environment.require_folder(request.cwd, rules) if request.cwd is not None else None
    return PermittedScript(skill, owner, script, request.args, data, runner, cwd)


def _read_script(skill: Skill, file: str) -> bytes:
    with open_fetched_file(skill, file) as handle:
        data = handle.read(MAX_SCRIPT_BYTES + 1)
    if len(data) > MAX_SCRIPT_BYTES:
        raise FileTooLargeError(
            f"{file!r} has more than {MAX_SCRIPT_BYTES:,} bytes, which is no script. "
            "Tell the skill's author to keep data in a file of its own."
        )
    return data


@contextmanager
def prepare_script_run(
    permitted: PermittedScript, rules: Scripts, script_environment: ScriptEnvironment
) -> Iterator[PreparedRun]:
    """Put the script's bytes, as permitted, into a private folder.  Blocking.

    Raises:
        TemporaryFolderError: The private folder cannot be made or filled.
        SandboxUnavailableError: The operator requires a sandbox, and none works.
        RunnerNotFoundError: The runner is not installed.
    """
    original = (permitted.owner.directory or Path()).resolve()
    with make_private_folder() as folder:
        path = _write_script(permitted, original, folder.copy)
        variables = policy.derive_run_variables(
            script_environment.variables, permitted.arguments, rules
        )
        command = PreparedCommand(
            words=(*permitted.runner, str(path)),
            environment={**variables, **folder.variables, "SKILL_DIR": str(original)},
            working_directory=permitted.cwd or folder.home,
            timeout_seconds=rules.timeout_seconds,
            max_output_bytes=rules.max_output_bytes,
        )
        grants = _derive_grants(permitted, folder, original, rules)
        wrapped = script_environment.sandbox.wrap(command, grants, rules)
        yield PreparedRun(wrapped, hashlib.sha256(permitted.data).hexdigest())


def _derive_grants(
    permitted: PermittedScript, folder: PrivateFolder, original: Path, rules: Scripts
) -> Grants:
    readable = (original, folder.copy)
    working_folders = (permitted.cwd,) if permitted.cwd else ()
    in_skill = permitted.cwd and any(map(permitted.cwd.is_relative_to, readable))
    is_writable = rules.roots_writable and not in_skill
    return Grants(
        home=folder.home,
        readable=readable if is_writable else (*working_folders, *readable),
        writable=working_folders if is_writable else (),
        network=rules.network,
    )


def _write_script(permitted: PermittedScript, original: Path, copy: Path) -> Path:
    parts = PurePosixPath(permitted.script.file).parts
    path = copy.joinpath(*parts)
    with translate_preparation_errors(f"{permitted.script.file!r} cannot be prepared"):
        for depth, part in enumerate(parts):
            folder = copy.joinpath(*parts[:depth])
            folder.mkdir()
            _link_neighbours(original.joinpath(*parts[:depth]), folder, without=part)
        path.write_bytes(permitted.data)
        path.chmod(0o500)
    return path


def _link_neighbours(original: Path, copy: Path, *, without: str) -> None:
    for entry in original.iterdir():
        # A link is never a file of a skill, also one to a file of the same skill.
        if entry.name != without and not entry.is_symlink():
            _link(entry, copy / entry.name)


def _link(entry: Path, link: Path) -> None:
    try:
        link.symlink_to(entry, target_is_directory=entry.is_dir())
    except (NotImplementedError, PermissionError):  # Windows asks for a privilege
        copy = shutil.copytree if entry.is_dir() else shutil.copy
        copy(entry, link)


@contextmanager
def prepare_command_run(
    request: CommandRequest,
    skill: Skill,
    rules: Config,
    script_environment: ScriptEnvironment,
) -> Iterator[PreparedRun]:
    """Copy the skill's folder and yield the command in it.  Blocking.

    Raises:
        FileError: A file of the skill cannot be copied; see the subclass.
        TemporaryFolderError: The private folder cannot be made or filled.
        RunnerNotFoundError: The program is not installed.
        SandboxUnavailableError: The operator requires a sandbox, and none works.
    """
    with make_private_folder() as folder:
        with translate_preparation_errors(f"the folder of {skill.path} cannot be copied"):
            folder.copy.mkdir()
            copy_skill_files(skill, folder.copy)
        variables = {
            **policy.derive_run_variables(script_environment.variables, {}, rules.scripts),
            **folder.variables,
        }
        words = derive_command_line(request.command, request.args, variables)
        command = PreparedCommand(
            words=words,
            environment=variables,
            working_directory=folder.copy,
            timeout_seconds=rules.commands.timeout_seconds,
            max_output_bytes=rules.commands.max_output_bytes,
        )
        grants = Grants(
            home=folder.home,
            readable=_find_uv_python(words, variables, script_environment.home),
            writable=(folder.copy,),
            network=rules.scripts.network,
        )
        digest = _read_digest(request.args, skill, folder.copy)
        wrapped = script_environment.sandbox.wrap(command, grants, rules.scripts)
        yield PreparedRun(wrapped, digest, words)


def derive_command_line(
    command: str, args: Sequence[str], variables: Mapping[str, str]
) -> tuple[str, ...]:
    """Command line; Python through `uv`, for inline dependencies (PEP 723)."""
    if command not in _PYTHON:
        return (command, *args)
    if find_executable(_UV, variables.get("PATH", "")) is None:
        return ("python3", *args)
    is_script = bool(args) and args[0].endswith(".py")
    program = () if is_script else ("python",)
    return (_UV, "run", "--no-project", *program, *args)


def _find_uv_python(
    words: Sequence[str], variables: Mapping[str, str], home: Path
) -> tuple[Path, ...]:
    search_path = variables.get("PATH", "")
    python = find_executable("python3", search_path) if words[0] == _UV else None
    return tuple(find_program_folders(python, search_path, home)) if python else ()


def _read_digest(args: Iterable[str], skill: Skill, copy: Path) -> str | None:
    paths = (PurePosixPath(argument).as_posix() for argument in args)
    file = next((path for path in paths if path in skill.files), None)
    if file is None:
        return None
    with (copy / file).open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@contextmanager
def make_private_folder() -> Iterator[PrivateFolder]:
    """Temporary folder for one run.  Blocking.

    Raises:
        TemporaryFolderError: The system's temporary folder is full, missing or closed.
    """
    with ExitStack() as opened:
        with translate_preparation_errors("no temporary folder can be made"):
            made = locked_temporary_folder(_FOLDER_PREFIX)
            folder = PrivateFolder(opened.enter_context(made))
            folder.home.mkdir()
        yield folder
