"""A run on the disk: the skill's bytes in a private folder, inside the sandbox.

A script runs from a copy of the bytes that were read, beside links to its neighbours.
A command runs in a copy of the whole skill and may write there, because a snapshot is
shared by all windows and never changes.
"""

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from skills_mcp.config import Config, Scripts
from skills_mcp.errors import FileTooLargeError, TemporaryFolderError
from skills_mcp.files.paths import parse_relative
from skills_mcp.files.temporary_folders import temporary_folder
from skills_mcp.scripts import policy
from skills_mcp.scripts.execution import Grants, PreparedCommand
from skills_mcp.scripts.policy import CommandRequest, ScriptRequest
from skills_mcp.scripts.sandbox.programs import find_program, find_program_folders
from skills_mcp.scripts.script_environment import ScriptEnvironment
from skills_mcp.skills.assets import copy_files, opened_whole
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.inheritance import find_script
from skills_mcp.skills.model import Script, Skill

MAX_SCRIPT_BYTES = 16 * 1024 * 1024
"""A hundred times the longest script of the public skills: it is held in memory."""

_UV = "uv"
_PYTHON = frozenset({"python", "python3"})

_FOLDER_PREFIX = "skills-mcp-run-"


@dataclass(frozen=True, slots=True)
class PermittedScript:
    """A script that every rule allows, and the bytes that will run."""

    skill: Skill
    owner: Skill
    """The skill that declares the script: the same, or one that it inherits from."""
    script: Script
    arguments: Mapping[str, str]
    data: bytes
    runner: tuple[str, ...]
    cwd: Path | None


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A script or a command in its private folder, ready to be started."""

    command: PreparedCommand
    sha256: str | None
    """The digest of the script, or of the skill's file that a command names first."""
    words: tuple[str, ...] = ()
    """The words of a command, without those of the sandbox; none of a script."""


@dataclass(frozen=True, slots=True)
class PrivateFolder:
    """A folder of one run that only our account can open."""

    path: Path
    """Absolute, and without links."""

    @property
    def home(self) -> Path:
        """The run's HOME and TMPDIR; the only place where it may always write."""
        return self.path / "home"

    @property
    def copy(self) -> Path:
        """Where the copies of a skill's files lie."""
        return self.path / "skill"

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment variables that name the home."""
        names = ("HOME", "TMPDIR", "TEMP", "TMP", "USERPROFILE")
        return dict.fromkeys(names, str(self.home))


def permit(
    request: ScriptRequest,
    index: SkillIndex,
    rules: Scripts,
    script_environment: ScriptEnvironment,
) -> PermittedScript:
    """Return what a request would run, or refuse it.  Blocking: reads the script.

    Raises:
        ScriptRefusedError: A rule forbids it; the subclass says which.
        SkillNotFoundError: There is no such skill.
        InvalidPathError: The file could lie outside the skill's folder.
        MissingFileError: The script is declared, but not there.
        ChangedFileError: It is not what it was when the skills were read.
        FileTooLargeError: It is longer than any script.
        InvalidArgumentsError: `cwd` is no absolute folder, or an argument is not
            declared, too long, or holds what no environment variable can hold.
    """
    policy.require_scripts_enabled(rules)
    skill = index.require(request.skill_path)
    parse_relative(request.file)
    # Inherited scripts are offered by get_skill, so they can be run, too.
    found = find_script(index, skill, request.file)
    script = policy.require_declared(skill.path, request.file, found)
    owner = found.owner if found else skill
    policy.require_server(skill.path, script)
    policy.require_arguments(script, request.args)
    policy.require_extension(rules, script.file)
    data = _read(owner, script.file)
    runner = policy.require_runner(rules, script.file)
    cwd = (
        script_environment.require_folder(request.cwd, rules)
        if request.cwd is not None
        else None
    )
    return PermittedScript(skill, owner, script, request.args, data, runner, cwd)


def _read(skill: Skill, file: str) -> bytes:
    with opened_whole(skill, file) as handle:
        data = handle.read(MAX_SCRIPT_BYTES + 1)
    if len(data) > MAX_SCRIPT_BYTES:
        raise FileTooLargeError(
            f"{file!r} has more than {MAX_SCRIPT_BYTES:,} bytes, which is no script. "
            "Tell the skill's author to keep data in a file of its own."
        )
    return data


@contextmanager
def prepared_script(
    permitted: PermittedScript, rules: Scripts, script_environment: ScriptEnvironment
) -> Iterator[PreparedRun]:
    """Put the script into a private folder, yield what runs it there, and clean up.

    Blocking.  What runs are the bytes that were read, even if the file changes.

    Raises:
        TemporaryFolderError: The private folder cannot be made or filled.
        SandboxUnavailableError: The operator requires a sandbox, and none works.
        RunnerNotFoundError: The runner is not installed.
    """
    original = (permitted.owner.directory or Path()).resolve()
    with private_folder() as folder:
        path = _place_script(permitted, original, folder.copy)
        variables = policy.derive_variables(
            script_environment.variables, permitted.arguments, rules
        )
        command = PreparedCommand(
            words=(*permitted.runner, str(path)),
            environment={**variables, **folder.variables, "SKILL_DIR": str(original)},
            working_directory=permitted.cwd or folder.home,
            timeout_seconds=rules.timeout_seconds,
            max_output_bytes=rules.max_output_bytes,
        )
        grants = _grant(permitted, folder, original, rules)
        wrapped = script_environment.sandbox.wrap(command, grants, rules)
        yield PreparedRun(wrapped, hashlib.sha256(permitted.data).hexdigest())


def _grant(
    permitted: PermittedScript, folder: PrivateFolder, original: Path, rules: Scripts
) -> Grants:
    readable = (original, folder.copy)
    given = (permitted.cwd,) if permitted.cwd else ()
    in_skill = any(cwd.is_relative_to(place) for cwd in given for place in readable)
    is_writable = rules.roots_writable and not in_skill
    return Grants(
        home=folder.home,
        readable=readable if is_writable else (*given, *readable),
        writable=given if is_writable else (),
        network=rules.network,
    )


def _place_script(permitted: PermittedScript, original: Path, copy: Path) -> Path:
    """Write the script below `copy`, beside links to its neighbours in the skill."""
    parts = PurePosixPath(permitted.script.file).parts
    path = copy.joinpath(*parts)
    with _requiring_room(f"{permitted.script.file!r} cannot be prepared"):
        for depth, part in enumerate(parts):
            place = copy.joinpath(*parts[:depth])
            place.mkdir()
            _link_all(original.joinpath(*parts[:depth]), place, without=part)
        path.write_bytes(permitted.data)
        path.chmod(0o500)
    return path


def _link_all(original: Path, copy: Path, *, without: str) -> None:
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
def prepared_command(
    request: CommandRequest,
    skill: Skill,
    rules: Config,
    script_environment: ScriptEnvironment,
) -> Iterator[PreparedRun]:
    """Copy the skill's folder, yield the command to run in it, and clean up.

    Blocking.

    Args:
        request: A command that `policy.require_command` allows.
        skill: The skill in whose folder it runs.
        rules: The operator's settings, for commands and for all runs.
        script_environment: Variables, folders and sandbox of this machine.

    Raises:
        FileError: A file of the skill cannot be copied; the subclass says why.
        TemporaryFolderError: The private folder cannot be made or filled.
        RunnerNotFoundError: The program is not installed.
        SandboxUnavailableError: The operator requires a sandbox, and none works.
    """
    with private_folder() as folder:
        with _requiring_room(f"the folder of {skill.path} cannot be copied"):
            folder.copy.mkdir()
            copy_files(skill, folder.copy)
        variables = {
            **policy.derive_variables(script_environment.variables, {}, rules.scripts),
            **folder.variables,
        }
        words = find_words(request.command, request.args, variables)
        command = PreparedCommand(
            words=words,
            environment=variables,
            working_directory=folder.copy,
            timeout_seconds=rules.commands.timeout_seconds,
            max_output_bytes=rules.commands.max_output_bytes,
        )
        grants = Grants(
            home=folder.home,
            readable=_find_python(words, variables, script_environment.home),
            writable=(folder.copy,),
            network=rules.scripts.network,
        )
        digest = _read_digest(request.args, skill, folder.copy)
        wrapped = script_environment.sandbox.wrap(command, grants, rules.scripts)
        yield PreparedRun(wrapped, digest, words)


def find_words(
    command: str, args: Sequence[str], variables: Mapping[str, str]
) -> tuple[str, ...]:
    """Return what is started: Python through `uv`, where uv is installed.

    uv reads the dependencies that a script declares inside itself (PEP 723) only
    if it is given the script, not if it is given Python.
    """
    if command not in _PYTHON:
        return (command, *args)
    if find_program(_UV, variables.get("PATH", "")) is None:
        return ("python3", *args)
    is_script = bool(args) and args[0].endswith(".py")
    program = () if is_script else ("python",)
    return (_UV, "run", "--no-project", *program, *args)


def _find_python(
    words: Sequence[str], variables: Mapping[str, str], home: Path
) -> tuple[Path, ...]:
    """Return what uv has to read besides itself: the Python that it starts."""
    search_path = variables.get("PATH", "")
    python = find_program("python3", search_path) if words[0] == _UV else None
    return tuple(find_program_folders(python, search_path, home)) if python else ()


def _read_digest(args: Iterable[str], skill: Skill, copy: Path) -> str | None:
    """Return the digest of the first file of the skill that the arguments name."""
    paths = (PurePosixPath(argument).as_posix() for argument in args)
    file = next((path for path in paths if path in skill.files), None)
    if file is None:
        return None
    with (copy / file).open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@contextmanager
def private_folder() -> Iterator[PrivateFolder]:
    """Make a folder for one run, and remove it when the run is over.  Blocking.

    Raises:
        TemporaryFolderError: The system's temporary folder is full, missing or closed.
    """
    with ExitStack() as opened:
        with _requiring_room("no temporary folder can be made"):
            made = temporary_folder(_FOLDER_PREFIX)
            folder = PrivateFolder(opened.enter_context(made))
            folder.home.mkdir()
        yield folder


@contextmanager
def _requiring_room(what_failed: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TemporaryFolderError(
            f"{what_failed}: {error.strerror}. Run it in your own shell, or ask the "
            "operator to look at TMPDIR."
        ) from error
