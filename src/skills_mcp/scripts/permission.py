"""From a request to a command, through the cascade of 001 §8.4 in its order."""

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from skills_mcp.config import Scripts
from skills_mcp.errors import FileTooLargeError, MissingFileError
from skills_mcp.files.paths import parse_relative
from skills_mcp.scripts import policy
from skills_mcp.scripts.execution import Grants, PreparedCommand
from skills_mcp.scripts.private_folder import PrivateFolder, private_folder
from skills_mcp.scripts.script_environment import ScriptEnvironment
from skills_mcp.skills.assets import opened_whole
from skills_mcp.skills.index import SkillIndex
from skills_mcp.skills.inheritance import find_script
from skills_mcp.skills.model import Script, Skill

MAX_SCRIPT_BYTES = 16 * 1024 * 1024
"""A hundred times the longest script of the public skills: it is held in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRequest:
    """What a caller wants to run."""

    skill_path: str
    file: str
    args: Mapping[str, str]
    cwd: str | None = None
    """The absolute path of a folder; None runs the script in an empty one."""


@dataclass(frozen=True, slots=True)
class Permitted:
    """A request that every rule allows, and the bytes that will run."""

    skill: Skill
    owner: Skill
    """The skill that declares the script: the same, or one that it inherits from."""
    script: Script
    data: bytes
    runner: tuple[str, ...]
    cwd: Path | None


@dataclass(frozen=True, slots=True)
class PreparedScript:
    """A script in its private folder, inside its sandbox, ready to be started."""

    command: PreparedCommand
    sha256: str
    """The digest of the bytes that will run, in hexadecimal."""


def permit(
    request: ScriptRequest,
    index: SkillIndex,
    rules: Scripts,
    script_environment: ScriptEnvironment,
) -> Permitted:
    """Return what a request would run, or refuse it.  Blocking: reads the script.

    Raises:
        ScriptRefusedError: A rule forbids it; the subclass says which.
        SkillNotFoundError: There is no such skill.
        InvalidPathError: The file could lie outside the skill's folder.
        MissingFileError: The script is declared, but not there.
        ChangedFileError: It is not what it was when the skills were read.
        FileTooLargeError: It is longer than any script.
        InvalidArgumentsError: `cwd` is no absolute folder, or an argument is not
            declared, too long, or nothing that an environment can carry.
    """
    policy.require_enabled(rules)
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
    return Permitted(skill, owner, script, data, runner, cwd)


@contextmanager
def prepared_script(
    permitted: Permitted,
    request: ScriptRequest,
    rules: Scripts,
    script_environment: ScriptEnvironment,
) -> Iterator[PreparedScript]:
    """Put the script into a private folder, yield what runs it there, and clean up.

    Blocking.  What runs are the bytes that were read, whatever becomes of the file.
    Its neighbours are links to the real ones, so that it finds them beside itself.

    Raises:
        MissingFileError: There is no room for the folder.
        SandboxUnavailableError: The operator requires a sandbox, and none works.
        RunnerNotFoundError: The runner is not installed.
    """
    original = (permitted.owner.directory or Path()).resolve()
    with private_folder() as folder:
        copy = folder.path / "skill"
        path = _place(permitted, original, copy)
        command = PreparedCommand(
            words=(*permitted.runner, str(path)),
            environment={
                **policy.derive_environment(
                    script_environment.variables, request.args, rules
                ),
                **folder.variables,
                "SKILL_DIR": str(original),
            },
            working_directory=permitted.cwd or folder.home,
            timeout_seconds=rules.timeout_seconds,
            max_output_bytes=rules.max_output_bytes,
        )
        grants = _grant(permitted, folder, (original, copy), rules)
        wrapped = script_environment.sandbox.wrap(command, grants, rules)
        yield PreparedScript(wrapped, hashlib.sha256(permitted.data).hexdigest())


def _grant(
    permitted: Permitted,
    folder: PrivateFolder,
    readable: tuple[Path, ...],
    rules: Scripts,
) -> Grants:
    given = (permitted.cwd,) if permitted.cwd else ()
    in_skill = any(cwd.is_relative_to(place) for cwd in given for place in readable)
    is_writable = rules.roots_writable and not in_skill
    return Grants(
        home=folder.home,
        readable=readable if is_writable else (*given, *readable),
        writable=given if is_writable else (),
        network=rules.network,
    )


def _read(skill: Skill, file: str) -> bytes:
    with opened_whole(skill, file) as handle:
        data = handle.read(MAX_SCRIPT_BYTES + 1)
    if len(data) > MAX_SCRIPT_BYTES:
        raise FileTooLargeError(
            f"{file!r} has more than {MAX_SCRIPT_BYTES:,} bytes, which is no script. "
            "Tell the skill's author to keep data in a file of its own."
        )
    return data


def _place(permitted: Permitted, original: Path, copy: Path) -> Path:
    """Write the script below `copy`, beside the same neighbours as in the skill."""
    parts = PurePosixPath(permitted.script.file).parts
    try:
        for depth, part in enumerate(parts):
            place = copy.joinpath(*parts[:depth])
            place.mkdir()
            _link_all(original.joinpath(*parts[:depth]), place, without=part)
        path = copy.joinpath(*parts)
        path.write_bytes(permitted.data)
        path.chmod(0o500)
    except OSError as error:
        raise MissingFileError(
            f"{permitted.script.file!r} cannot be prepared: {error.strerror}. Run it "
            "in your own shell, or ask the operator to look at TMPDIR."
        ) from error
    return path


def _link_all(original: Path, copy: Path, *, without: str) -> None:
    for entry in original.iterdir():
        # A link is never a file of a skill, wherever it leads.
        if entry.name != without and not entry.is_symlink():
            _link(entry, copy / entry.name)


def _link(entry: Path, link: Path) -> None:
    try:
        link.symlink_to(entry, target_is_directory=entry.is_dir())
    except (NotImplementedError, PermissionError):  # Windows asks for a privilege
        copy = shutil.copytree if entry.is_dir() else shutil.copy
        copy(entry, link)
