"""Everything that is wrong with one skill: its files, and its place in the tree."""

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from skills_mcp.authoring.validation.entry_command import check_entry
from skills_mcp.authoring.validation.head import parse_strictly
from skills_mcp.authoring.validation.layout import check_length, check_undeclared
from skills_mcp.authoring.validation.links import Surroundings, check_links
from skills_mcp.authoring.validation.markdown import (
    Markdown,
    parse_markdown,
    read_bytes,
    read_text,
)
from skills_mcp.authoring.validation.packages import check_package
from skills_mcp.authoring.validation.places import is_repository
from skills_mcp.authoring.validation.rivals import (
    MAX_SKILLS,
    SharedKeywords,
    check_findable,
)
from skills_mcp.authoring.validation.rules import Finding
from skills_mcp.authoring.validation.texts import check_body, check_fields, check_text
from skills_mcp.authoring.validation.tree import Entry, Tree
from skills_mcp.skills.found import Package
from skills_mcp.skills.model import Problem, Skill
from skills_mcp.skills.package import classify

_MARKDOWN = ".md"
_KEYWORDS = ("keywords", "tags", "triggers", "metadata")


class EntryChecker:
    """Checks the skills of one tree, one by one."""

    def __init__(self, tree: Tree) -> None:
        self._snapshot = tree.snapshot
        self._shared = SharedKeywords(tree.snapshot.index)
        self._reported = {Path(problem.file) for problem in tree.problems()}

    def check(self, entry: Entry) -> Iterator[Problem]:
        """Read an entry's Markdown files, and yield what is wrong."""
        raw = read_bytes(entry.home, entry.found.file)
        is_unserved = entry.skill is None and not entry.is_package
        if raw is None or is_unserved:
            return  # reported by now, or a text for people
        markdown = parse_markdown(raw)
        for finding in self._check_main(entry, raw, markdown):
            yield finding.at(entry.file)
        for file, finding in _check_others(entry):
            yield finding.at(file)

    def _check_main(
        self, entry: Entry, raw: bytes, markdown: Markdown
    ) -> Iterator[Finding]:
        found = [*check_text(markdown.text)]
        said = {finding.rule for finding in found}
        if isinstance(entry.found, Package):
            reading = parse_strictly(raw, markdown)
            main, folder = entry.found.main, _folder_name(entry)
            strict = check_package(reading, main, folder)
            # Of what steers a terminal, the reader says only that there is some.
            yield from (each for each in strict if each.rule not in said)
        yield from found
        yield from check_body(markdown.body, markdown.first_line)
        yield from check_links(markdown, _surroundings(entry))
        if entry.skill is not None:
            yield from self._check_skill(entry.skill, markdown)

    def _check_skill(self, skill: Skill, markdown: Markdown) -> Iterator[Finding]:
        index = self._snapshot.index
        yield from self._shared.check(skill, markdown.line(*_KEYWORDS))
        yield from check_fields(skill, markdown.text, markdown.line("description"))
        if len(index) <= MAX_SKILLS:
            line = markdown.line("keywords", "description")
            yield from check_findable(self._snapshot, skill, line)
        yield from check_length(index, skill)
        yield from check_entry(skill, markdown.line("entry", "metadata"))
        if skill.inventory is None:
            line = markdown.line("assets", "scripts")
            yield from check_undeclared(skill, line, self._reported)


def _folder_name(entry: Entry) -> str | None:
    folder = entry.whole
    return None if is_repository(folder) else folder.name


def _check_others(entry: Entry) -> Iterator[tuple[Path, Finding]]:
    """Check the texts that agents read after the main one."""
    for file in _other_files(entry):
        path = entry.resources / file
        text = read_text(entry.resources, file)
        if text is None:
            continue
        for finding in check_text(text):
            yield path, finding
        if file.endswith(_MARKDOWN) and _is_reference(file):
            markdown = parse_markdown(text.encode())
            folder = PurePosixPath(file).parent.as_posix()
            for finding in check_links(markdown, _surroundings(entry, folder)):
                yield path, finding


def _other_files(entry: Entry) -> Iterator[str]:
    """Iterate over the files that can be asked for."""
    files: Iterable[str] = entry.skill.files if entry.skill else ()
    main = ""
    if isinstance(entry.found, Package):
        files, main = entry.found.files, entry.found.main
    yield from (file for file in files if file != main)


def _is_reference(file: str) -> bool:
    """Whether its links are for the skill; those of a template are for its copy."""
    is_template = "template" in PurePosixPath(file).name.casefold()
    return classify(file) == "reference" and not is_template


def _surroundings(entry: Entry, below: str = ".") -> Surroundings:
    """Return what the links of a file lead to.

    In a package they begin at its folder, as the standard has it, or at that of the
    file, as every editor has it. A rule file counts on the whole tree, and what it
    hands out lies in a folder of its own.
    """
    found = entry.found
    if isinstance(found, Package):
        bases = (f"{found.folder or '.'}/{below}", found.folder or ".")
        return Surroundings(entry.home, found.folder, bases, found.files)
    place = PurePosixPath(found.file)
    bases = (place.parent.as_posix(), place.with_suffix("").as_posix())
    return Surroundings(entry.home, "", bases)
