"""Write a new skill: a rule file, or a package with a SKILL.md.

PATH is its place in the tree, such as ui/react/forms. Nothing that exists is
changed.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from skills_mcp.cli.command_group import WHERE, SectionedCommand, SectionOption
from skills_mcp.cli.options import complete_folder, json_option
from skills_mcp.cli.terminal import print_json
from skills_mcp.errors import InvalidPathError, SkillNotWrittenError
from skills_mcp.features.authoring.markdown import DRAFT_LINE, dump_fields
from skills_mcp.files.durable import fsync_folder
from skills_mcp.files.paths import fold_name, parse_relative
from skills_mcp.skills.model import hyphenate, is_standard_name
from skills_mcp.skills.skill_index import INDEX, ROOT
from skills_mcp.skills.skill_parser import SKILL_MD, is_skill_md
from skills_mcp.skills.source_layout import SKILLS_FOLDER, FolderTree, Selection, find_layout

_MARKDOWN = ".md"
_PATH_HINT = "Write it like ui/react/forms: folders, then the name of the skill."


@dataclass(frozen=True, slots=True)
class WrittenSkill:
    """Result of `write_draft`."""

    file: Path
    path: str
    task: str
    """An example task routed to it."""


def write_draft(
    folder: Path, path: str, description: str, keywords: Sequence[str], *, is_package: bool
) -> WrittenSkill:
    """Write a skill below a folder, with its parent folders.

    Without a description or keywords, these are made of the path. Existing files are
    never changed. A folder with a `skills/` layout gets it there.

    Raises:
        InvalidPathError: The path is not portable.
        SkillNotWrittenError: The path is taken, another skill would hide it, or the folder
            is not writable.
    """
    parts = _parse(path, is_package=is_package)
    home = _find_home(folder)
    for problem in _find_conflicts(home, parts, is_package=is_package):
        raise SkillNotWrittenError(problem)
    target = home.joinpath(*parts)
    file = target / SKILL_MD if is_package else target.with_name(f"{target.name}{_MARKDOWN}")
    task, text = _compose(parts, description, keywords, is_package=is_package)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8", newline="\n") as handle:
            handle.write(text)
        fsync_folder(file.parent)
    except OSError as error:
        raise SkillNotWrittenError(
            f"{file} cannot be written: {error.strerror}. Nothing was changed."
        ) from error
    return WrittenSkill(file, "/".join(parts), task)


def _parse(path: str, *, is_package: bool) -> tuple[str, ...]:
    path = path.strip().strip("/").removesuffix(f"/{SKILL_MD}")
    try:
        parts = parse_relative(path.removesuffix(_MARKDOWN))
    except InvalidPathError as error:
        raise InvalidPathError(f"The path is not allowed. {_PATH_HINT}") from error
    if is_package:
        _require_legal_name(parts[-1])
    return parts


def _require_legal_name(name: str) -> None:
    if name in {INDEX, ROOT}:
        raise InvalidPathError(
            f"{name} is the rules of a folder, and no package. Leave --package out."
        )
    if not is_standard_name(name):
        meant = hyphenate(name)
        more = f" Call it {meant}." if is_standard_name(meant) else ""
        raise InvalidPathError(
            "The name of a package has 1 to 64 of a-z, 0-9 and single hyphens." + more
        )


def _find_home(folder: Path) -> Path:
    """Locate the root folder of the skills; it may not exist yet."""
    if not folder.exists():
        return folder
    if not folder.is_dir():
        raise SkillNotWrittenError(f"{folder} is a file. Name a folder for the skills.")
    first = find_layout(FolderTree(folder), Selection()).homes[0]
    return folder / first.folder if first.folder else folder


def _find_conflicts(home: Path, parts: Sequence[str], *, is_package: bool) -> Iterator[str]:
    """Yield conflicts with existing files, most important first."""
    folder = home
    for number, part in enumerate(parts):
        if any(map(is_skill_md, _list_names(folder))):
            yield (
                f"{folder} is a package, and what is in it are its files. Put the skill beside it."
            )
        is_last = number == len(parts) - 1
        names = _list_names(folder)
        folded = {fold_name(name): name for name in names}
        expected = (part, f"{part}{_MARKDOWN}")
        same = [folded.get(fold_name(name)) for name in expected]
        if is_last:
            yield from _find_existing(folder, same, is_package=is_package)
        elif same[1]:
            yield (
                f"{folder / part} is the folder of the files of {folder / same[1]}, "
                f"so that a skill in it would not be served. Rename that file to "
                f"{folder / part / INDEX}{_MARKDOWN}, or take another path."
            )
        elif same[0] and same[0] != part:
            yield (f"{folder / same[0]} differs only in its spelling. Write it like that.")
        folder /= part


def _find_existing(folder: Path, same: Sequence[str | None], *, is_package: bool) -> Iterator[str]:
    own_folder, own_file = same
    if own_file:
        yield f"{folder / own_file} exists already. Edit it, or take another path."
    if own_folder and is_package:
        yield f"{folder / own_folder} exists already. Take another path."
    if own_folder and (folder / own_folder).is_dir() and not is_package:
        existing = folder / own_folder
        if any(name.endswith(_MARKDOWN) for name in _list_names(existing)):
            yield (
                f"{existing} holds skills, which would be hidden as files of the new one. "
                f"For rules that hold for all of them, write {own_folder}/{INDEX}."
            )


def _list_names(folder: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(entry.name for entry in folder.iterdir()))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise SkillNotWrittenError(
            f"{folder} cannot be read: {error.strerror}. Check its permissions."
        ) from error


def _compose(
    parts: Sequence[str], description: str, keywords: Sequence[str], *, is_package: bool
) -> tuple[str, str]:
    named = [re.sub("[-_]", " ", part) for part in parts if part not in {INDEX, ROOT}]
    subject, above = " ".join(named[-1:]), " ".join(named[:-1])
    keywords = [*keywords] or subject.lower().split() or ["conventions"]
    task = " ".join(filter(None, ("change", above, *keywords)))
    description = description or _describe(parts, subject, above)
    title = f"{subject[:1].upper()}{subject[1:]}" or "Rules for every task"
    body = f"# {title}\n\n{DRAFT_LINE}\n"
    head: dict[str, object] = {"description": description}
    if is_package:
        # The standard allows nothing but texts in metadata.
        metadata = {"tags": ", ".join(keywords), "examples": task}
        head = {"name": parts[-1], **head, "metadata": metadata}
    else:
        head |= {"keywords": keywords, "examples": [task]}
    return task, f"---\n{dump_fields(head, is_block=is_package)}---\n{body}"


def _describe(parts: Sequence[str], subject: str, above: str) -> str:
    if not subject:
        return "Rules for every task"
    if parts[-1] == INDEX:
        return f"Rules for everything in {'/'.join(parts[:-1])}"
    where = f" in {above}" if above else ""
    return f"How to work on {subject}{where}. Use it for every change there."


@click.command(
    cls=SectionedCommand,
    examples=(
        "skills-mcp new ui/react/forms",
        "skills-mcp new office/pdf --package --skills-dir ./skills",
        "skills-mcp new ui/_index --keywords ui,css --skills-dir ./skills",
    ),
)
@click.argument("path")
@click.option(
    "--skills-dir",
    "folder",
    cls=SectionOption,
    section=WHERE,
    envvar="SKILLS_DIR",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    shell_complete=complete_folder,
    help="The folder with the skills; it is made if there is none.  [default: skills/ here]",
)
@click.option(
    "--package", "is_package", is_flag=True, help="Write a package: a folder with a SKILL.md."
)
@click.option(
    "--description",
    metavar="TEXT",
    default="",
    help="What it is for, and when to use it.  [default: made of PATH]",
)
@click.option(
    "--keywords",
    metavar="WORDS",
    default="",
    help="What a developer would type, separated by commas.  [default: made of PATH]",
)
@json_option
def command(
    *,
    path: str,
    folder: Path | None,
    is_package: bool,
    description: str,
    keywords: str,
    as_json: bool,
) -> None:
    folder = folder or _find_working_home()
    written = write_draft(
        folder,
        path,
        " ".join(description.split()),
        tuple(filter(None, map(str.strip, keywords.split(",")))),
        is_package=is_package,
    )
    commands = [*map(shlex.join, _next(folder, written))]
    if as_json:
        print_json(
            {
                "file": str(written.file),
                "skill_path": written.path,
                "kind": "package" if is_package else "rule",
                "next": commands,
            }
        )
        return
    click.echo(f"Wrote {written.file}. Write its rules, then try it:")
    for line in commands:
        click.echo(f"  {line}")


def _find_working_home() -> Path:
    home = Path(SKILLS_FOLDER)
    if home.is_dir():
        return home
    raise click.UsageError(
        f"There is no folder {SKILLS_FOLDER} here. To make one: --skills-dir {SKILLS_FOLDER}"
    )


def _next(folder: Path, written: WrittenSkill) -> tuple[tuple[str, ...], ...]:
    where = ("--skills-dir", str(folder))
    return (
        ("skills-mcp", "ask", written.task, *where),
        ("skills-mcp", "show", written.path, *where),
        ("skills-mcp", "validate", str(folder)),
        ("skills-mcp", "test", *where),
    )
