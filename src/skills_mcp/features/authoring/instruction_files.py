"""Instruction files of coding agents, and the skills that they become.

Rule: nothing is lost in silence. Each file becomes a skill or a part of one, or is named
with the reason; so is each frontmatter key that a skill does not have.
"""

import os
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any, Literal, NamedTuple

from skills_mcp.features.authoring.markdown import dump_fields
from skills_mcp.files.durable import read_regular
from skills_mcp.routing.decision import join_frequent_terms
from skills_mcp.routing.lexicon import common_word_weight, is_technology_name, stem
from skills_mcp.routing.tokenizer import SILENT_WORDS, fold, tokenize
from skills_mcp.skills.document import decode_markdown, get_text, parse_document
from skills_mcp.skills.model import ProblemList, hyphenate
from skills_mcp.skills.skill_index import INDEX, ROOT
from skills_mcp.skills.skill_parser import SKILL_MD, derive_description, is_skill_md
from skills_mcp.skills.source_layout import GENERATED_FOLDERS
from skills_mcp.text.rendering import count_noun, truncate_text

Form = Literal["rule", "package", "folder"]


class _Format(NamedTuple):
    host: str
    form: Form
    pattern: re.Pattern[str]


_DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def _parse_format(row: tuple[str, Form, str]) -> _Format:
    host, form, path = row
    return _Format(host, form, re.compile(rf"(?P<at>(?:.*/)?){path}", re.IGNORECASE))


_FORMATS = tuple(map(_parse_format, _DATA["formats"]))
_OF_PLUGIN = tuple(map(_parse_format, _DATA["plugin_formats"]))

_HOST_FOLDERS = frozenset({".cursor", ".windsurf", ".clinerules", ".claude"})
_READ_BY_SERVER = ("skills",)
_PLUGIN = ".claude-plugin"
_MAX_BYTES = 1024 * 1024

_KEYS_UNDERSTOOD = frozenset(
    {"name", "title", "description", "globs", "alwaysapply", "applyto", "trigger", "paths"}
)
_EVERY_FILE = frozenset({"*", "**", "**/*", "/**", "**/**", "**/*.*", "*.*", "/"})


@dataclass(frozen=True, slots=True)
class Instructions:
    """A parsed instruction file."""

    file: str
    """Relative to the source, with forward slashes."""
    host: str
    form: Form
    at: str
    """The folder that it is about."""
    name: str
    description: str
    globs: tuple[str, ...]
    always: bool
    body: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportedSkill:
    """A skill to write, made of one or several instruction files."""

    path: str
    is_package: bool
    sources: tuple[Instructions, ...]
    keywords: tuple[str, ...] = ()
    """Proposed; empty for a package, which needs none."""

    @property
    def file(self) -> str:
        return f"{self.path}/{SKILL_MD}" if self.is_package else f"{self.path}.md"


@dataclass(frozen=True, slots=True)
class ImportPlan:
    skills: tuple[ImportedSkill, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    """File and reason."""
    packages: tuple[str, ...] = ()
    """Folders that have a `SKILL.md` already, outside of those of a host."""


def is_instruction_path(file: str) -> bool:
    """Whether a file may be one, by its path.

    >>> is_instruction_path(".cursor/rules/react.mdc"), is_instruction_path("docs/react.md")
    (True, False)
    """
    parts = PurePosixPath(file).parts
    folders = {".github", "commands", "agents", _PLUGIN, *_HOST_FOLDERS}
    is_below = not folders.isdisjoint(parts[:-1]) and file.endswith((".md", ".txt", ".json"))
    return is_below or _match(file, _FORMATS) is not None or is_skill_md(parts[-1])


def plan_import(folder: Path, target: Path | None = None) -> ImportPlan:
    """Find the instruction files of a folder, and plan a skill for each.  Reads them.

    Files below `target` and files of packages are left alone.
    """
    found: list[Instructions] = []
    left_out: dict[str, str] = {}
    packages: list[str] = []
    for file, matched in _walk(folder, target, packages):
        if matched is None:
            left_out[file] = "no instructions"
            continue
        read = _read(folder / file, file, *matched)
        if isinstance(read, str):
            left_out[file] = read
        else:
            found.append(read)
    skills = _add_indexes(_place([*_drop_copies(found, left_out)]))
    proposed = _propose_keywords(skills, folder.resolve().name)
    return ImportPlan(proposed, left_out, tuple(packages))


def _match(file: str, formats: Iterable[_Format]) -> tuple[_Format, re.Match[str]] | None:
    return next(((f, m) for f in formats if (m := f.pattern.fullmatch(file))), None)


_Matched = tuple[_Format, re.Match[str]]


def _walk(
    folder: Path, target: Path | None, packages: list[str]
) -> Iterator[tuple[str, _Matched | None]]:
    """Each file with its format; folders of packages are collected."""
    plugins: list[str] = []
    for top, folders, files in os.walk(folder):
        above = Path(top).relative_to(folder).as_posix()
        inside = "" if above == "." else f"{above}/"
        is_own = target is not None and Path(top) == target
        is_package = bool(inside) and any(map(is_skill_md, files))
        if is_own or is_package:
            packages += [] if is_own else [above]
            folders.clear()
            continue
        if _PLUGIN in folders:
            plugins.append(inside)
        folders[:] = sorted(f for f in folders if not _is_skipped(f, above))
        formats = (*_FORMATS, *(_OF_PLUGIN if _is_of_plugin(inside, plugins) else ()))
        for name in sorted(files):
            matched = _match(f"{inside}{name}", formats)
            if matched or not _HOST_FOLDERS.isdisjoint(inside.split("/")):
                yield f"{inside}{name}", matched


def _is_skipped(name: str, above: str) -> bool:
    is_served = name in _READ_BY_SERVER and above.rpartition("/")[2] in _HOST_FOLDERS
    return name in GENERATED_FOLDERS or name in {".git", _PLUGIN} or is_served


def _is_of_plugin(inside: str, plugins: Iterable[str]) -> bool:
    return any(inside.startswith((f"{p}commands/", f"{p}agents/")) for p in plugins)


def _read(path: Path, file: str, form: _Format, found: re.Match[str]) -> Instructions | str:
    """Instructions, or the reason why there are none."""
    name = found.groupdict().get("name") or ""
    if PurePosixPath(name).name.upper() == "README":
        return "a text for people"
    if path.is_symlink():
        return f"a link to {path.readlink()}"
    raw = read_regular(path, _MAX_BYTES)
    if raw is None:
        return "not readable, or larger than 1 MiB"
    report = ProblemList(file)
    text = decode_markdown(raw, report, lenient=True)
    if text and form.form == "folder":
        text = _drop_joined_files(text, path)
    document = parse_document(text, report, lenient=True) if text else None
    body = document.body.strip() if document else ""
    if document is None or not body or (form.form == "folder" and _is_pointer(body)):
        return _explain_no_text(body, report)
    return _interpret(document.fields, document.body, file, form, found)


def _explain_no_text(body: str, report: ProblemList) -> str:
    if body:
        return f"only names another file: {truncate_text(body, _MAX_POINTER)}"
    broken = (problem.reason for problem in report.problems if problem.level == "error")
    return next(broken, "no text behind its frontmatter")


def _drop_joined_files(text: str, path: Path) -> str:
    """Drop each line that brings in a file of the same folder, with which it is joined."""
    joined = (name for name in _JOINED if name != path.name and (path.parent / name).is_file())
    return re.sub(rf"(?m)^\s*@(?:\./)?(?:{'|'.join(joined) or '(?!)'})[ \t]*$\n?", "", text)


_JOINED = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")

_MAX_POINTER = 60


def _is_pointer(body: str) -> bool:
    return re.fullmatch(r"(?:\s*@\S+\s*)+|\s*[\w./-]+\.md\s*", body) is not None


def _interpret(
    fields: Mapping[str, Any], body: str, file: str, form: _Format, found: re.Match[str]
) -> Instructions:
    known = {key.casefold().replace("_", "").replace("-", ""): key for key in fields}
    globs = tuple(
        glob
        for key in ("globs", "applyto", "paths")
        for glob in _split_globs(fields.get(known.get(key, "")))
    )
    trigger = get_text(fields, known.get("trigger", ""))
    always = get_text(fields, known.get("alwaysapply", "")).casefold() == "true"
    plain, links = _name_linked_files(body, PurePosixPath(file).parent.as_posix())
    left = sorted(key for folded, key in known.items() if folded not in _KEYS_UNDERSTOOD)
    notes = [f"left out: {', '.join(left)}"] if left else []
    notes += [f"{count_noun(links, 'link')} written as paths"] if links else []
    notes += [f"kept as text: {what}" for what, mark in _ONLY_HOSTS if mark.search(body)]
    at = found["at"].removesuffix("/")
    return Instructions(
        file=file,
        host=form.host,
        form=form.form,
        at=at.removeprefix("plugins/") if form in _OF_PLUGIN else at,
        name=(found.groupdict().get("name") or ""),
        description=" ".join(get_text(fields, "description").split()),
        globs=globs,
        always=always or trigger == "always_on" or (form.host == "Cline rule" and not globs),
        body=plain,
        notes=tuple(notes),
    )


_ONLY_HOSTS = (
    ("$ARGUMENTS", re.compile(r"\$ARGUMENTS|\$[1-9]\b")),
    ("!`command`", re.compile(r"(?<!\S)!`[^`]+`")),
    ("@file", re.compile(r"(?m)(?<!\S)@[\w./-]+\.\w{1,5}(?!\S)")),
    ("${input:…}", re.compile(r"\$\{(?:input|selection|file|workspaceFolder)\b")),
)
"""What only the host replaces."""


def _split_globs(value: object) -> Iterator[str]:
    values = value if isinstance(value, list) else [value]
    for each in values:
        if isinstance(each, str):
            parts = re.split(r",(?![^{]*\})", each.strip().strip("[]"))
            yield from filter(None, (part.strip(" \"'") for part in parts))


_LINK = re.compile(r"(!?)\[([^\]\n]*)\]\(\s*<?(?P<target>[^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_WEB = re.compile(r"(?:[a-z][a-z0-9+.-]+:|#|//)", re.IGNORECASE)
_FENCE = re.compile(r"^\s*(`{3,}|~{3,})(.*)")


def _name_linked_files(body: str, folder: str) -> tuple[str, int]:
    """Write links to files of the repository as paths, and close an open code block.

    A skill stands elsewhere than its instructions, and other rules follow it.
    """
    count, fence, lines = 0, "", []

    def replace_link(found: re.Match[str]) -> str:
        nonlocal count
        target = found["target"].removeprefix("mdc:")
        if _WEB.match(target):
            return found[0]
        count += 1
        path, _, _ = target.partition("#")
        inside = path.lstrip("/") if path.startswith("/") else normpath(f"{folder}/{path}")
        label = found[2].strip("`")
        return f"`{inside}`" if label in {"", path, target, inside} else f"{label} (`{inside}`)"

    for line in body.split("\n"):
        opened = _FENCE.match(line)
        if opened and not fence:
            fence = opened[1]
        elif opened and opened[1].startswith(fence) and not opened[2].strip():
            fence = ""
        lines.append(line if fence or opened else _LINK.sub(replace_link, line))
    lines += [fence] if fence else []
    return "\n".join(lines), count


def _drop_copies(found: Iterable[Instructions], left_out: dict[str, str]) -> Iterator[Instructions]:
    first: dict[str, str] = {}
    for each in found:
        key = " ".join(each.body.split())
        if key in first:
            left_out[each.file] = f"the same text as {first[key]}"
            continue
        first[key] = each.file
        yield each


def _slug(path: str) -> str:
    parts = (hyphenate(part.replace(".", "-")) or "rules" for part in path.split("/") if part)
    return "/".join(parts)


def _place(found: Sequence[Instructions]) -> list[ImportedSkill]:
    """Choose a path for each, so that none hides another."""
    folders: dict[str, list[Instructions]] = defaultdict(list)
    for each in found:
        if each.form == "folder":
            folders[_slug(each.at)].append(each)
    placed = [
        ImportedSkill(f"{at}/{INDEX}" if at else ROOT, is_package=False, sources=tuple(group))
        for at, group in folders.items()
    ]
    wanted = [(_derive_path(each), each) for each in found if each.form != "folder"]
    above = {folder for path, _ in wanted for folder in _list_folders(path)} | {*folders}
    taken = {skill.path for skill in placed}
    for path, each in wanted:
        is_package = each.form == "package"
        is_index = path in above and not is_package and f"{path}/{INDEX}" not in taken
        chosen = f"{path}/{INDEX}" if is_index else _find_free(path, each, taken | above)
        taken.add(chosen)
        placed.append(ImportedSkill(chosen, is_package, (each,)))
    return placed


_MAX_NAME = 64
_HOST_WORDS = re.compile(r"(?<=.)-(?:cursor-?rules?\b.*|prompt-fil\w*|pro(?:mpt?)?$)")
"""Ends of names in collections of rules; some are cut."""


def _derive_path(each: Instructions) -> str:
    above, _, name = _slug(f"{each.at}/{each.name}").rpartition("/")
    name = _HOST_WORDS.sub("", name) if each.form == "rule" else name
    name = name[:_MAX_NAME].strip("-")
    return f"{above}/{name}" if above else name


def _list_folders(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _find_free(path: str, each: Instructions, taken: Collection[str]) -> str:
    words = each.host.split()[:: -1 if each.form == "package" else 1]
    others = [
        *(f"{path}-{_slug(word)}" for word in words),
        *(f"{path}-{n}" for n in range(2, 1000)),
    ]
    return next(candidate for candidate in (path, *others) if candidate not in taken)


def _add_indexes(skills: list[ImportedSkill]) -> list[ImportedSkill]:
    """Add the rules of a folder where its neighbours have some."""
    indexed = {s.path.rpartition("/")[0] for s in skills if s.path.endswith(f"/{INDEX}")}
    folders = {s.path.rpartition("/")[0] for s in skills if not s.is_package and "/" in s.path}
    needed = {f for f in folders - indexed if f and _has_indexed_neighbour(f, indexed)}
    return skills + [_compose_index(folder) for folder in sorted(needed)]


def _compose_index(folder: str) -> ImportedSkill:
    text = f"# {folder}\n\nRules for work in `{folder}`: see the skills below."
    source = Instructions(*("", "added", "folder", folder, "", "", ()), always=False, body=text)
    return ImportedSkill(f"{folder}/{INDEX}", is_package=False, sources=(source,))


def _has_indexed_neighbour(folder: str, indexed: Collection[str]) -> bool:
    parents = {each.rpartition("/")[0] for each in indexed}
    return any(f in indexed for f in _list_folders(folder)) or folder.rpartition("/")[0] in parents


MAX_KEYWORDS = 5
"""With more, one of them alone is below `min_score`."""

_LANGUAGES: Mapping[str, str] = _DATA["languages"]
_PLAIN_FOLDERS = frozenset(_DATA["plain_folders"])
_NO_SUBJECT = frozenset(_DATA["no_subject"])
_WORD = re.compile(r"[^\W_]+")
_HEADINGS = re.compile(r"(?m)^#{1,3}\s+(.+)$")


def _propose_keywords(
    skills: Sequence[ImportedSkill], repository: str
) -> tuple[ImportedSkill, ...]:
    """Give each word to the sibling that says most about it."""
    proposed = {
        skill.path: _rank_words(skill, repository) for skill in skills if not skill.is_package
    }
    owners: dict[tuple[str, str], tuple[int, int, str]] = {}
    for path, words in proposed.items():
        for rank, word in enumerate(words):
            key = _topic_folder(path), stem(word)
            claim = rank, path.rpartition("/")[2].count("-"), path
            owners[key] = min(owners.get(key, claim), claim)
    chosen = (_choose(skill, proposed.get(skill.path, ()), owners) for skill in skills)
    return tuple(sorted(chosen, key=lambda skill: skill.path))


def _topic_folder(path: str) -> str:
    """The folder among whose skills a keyword has to be the only one."""
    folder, _, name = path.rpartition("/")
    return folder.rpartition("/")[0] if name == INDEX else folder


def _choose(
    skill: ImportedSkill,
    words: Sequence[str],
    owners: Mapping[tuple[str, str], tuple[int, int, str]],
) -> ImportedSkill:
    """Choose the keywords; a rule with none of its own is found by its description alone."""
    path = skill.path
    own = [w for w in words if owners[_topic_folder(path), stem(w)][2] == path][:MAX_KEYWORDS]
    is_for_folder = path == ROOT or path.endswith(f"/{INDEX}")
    if is_for_folder:
        return replace(
            skill, keywords=tuple(own) or (hyphenate(path.replace(INDEX, "")) or "conventions",)
        )
    return replace(skill, keywords=tuple(own), is_package=skill.is_package or not own)


def _rank_words(skill: ImportedSkill, repository: str) -> tuple[str, ...]:
    """Candidates for keywords: of the name, the globs, then the text."""
    first = skill.sources[0]
    named = first.name or PurePosixPath(first.at).name or repository
    text = "\n".join((first.description, *_HEADINGS.findall(first.body)))
    frequent = join_frequent_terms(f"{text}\n{text}\n{first.body[:4000]}")[0].split()
    said = Counter(fold(word) for word in _WORD.findall(text))
    words = (
        *map(fold, _WORD.findall(named)),
        *(word for glob in first.globs for word in _read_glob(glob)),
        *(word for word in frequent if said[word] > 1 or is_technology_name(word)),
        *map(fold, _WORD.findall(named.rpartition("/")[0])),
    )
    return tuple(dict.fromkeys(filter(_is_subject, words))) or (hyphenate(named) or "rules",)


def _is_subject(word: str) -> bool:
    if word in _NO_SUBJECT or word in SILENT_WORDS or word.isdecimal() or not tokenize(word):
        return False
    return is_technology_name(word) or (len(word) > 2 and common_word_weight(stem(word)) >= 1)  # noqa: PLR2004


def _read_glob(glob: str) -> Iterator[str]:
    """Words of a glob.

    >>> [*_read_glob("src/components/**/*.{ts,py}")]
    ['typescript', 'python', 'components']
    """
    for suffix in re.findall(r"\.\{?([\w,]+)\}?$", glob):
        yield from (_LANGUAGES.get(part, part) for part in suffix.lower().split(","))
    names = (part for part in glob.lower().split("/")[:-1] if part.isalpha())
    yield from (name for name in names if name not in _PLAIN_FOLDERS)


MAX_DESCRIPTION = 1024
"""Of the Agent Skills standard."""

_MAX_LISTED_GLOBS = 6
_PROPOSED = "  # proposed by import: keep what a developer would type"


def render_imported_skill(skill: ImportedSkill) -> str:
    """The text of the file."""
    first = skill.sources[0]
    description = truncate_text(_describe(skill), MAX_DESCRIPTION)
    if skill.is_package:
        always = {"metadata": {"alwaysApply": "true"}} if first.always else {}
        name = skill.path.rpartition("/")[2]
        head = dump_fields({"name": name, "description": description, **always}, is_block=True)
    else:
        fields = {"description": description, "keywords": [*skill.keywords]}
        head = dump_fields(fields, is_block=False)
        head = f"{head.rstrip()}{_PROPOSED}\n"
        head += "alwaysApply: true\n" if first.always and first.form == "rule" else ""
    return f"---\n{head}---\n{_compose_body(skill)}\n"


def _describe(skill: ImportedSkill) -> str:
    first = skill.sources[0]
    if first.form == "folder":
        where = f"everything in {first.at}" if first.at else "every task"
        topics = [t.strip("# *`:") for t in re.findall(r"(?m)^##\s+(.+)$", first.body)]
        about = f": {', '.join(topics[:_MAX_LISTED_GLOBS])}" if topics else ""
        return f"Rules for {where}{about}"
    named = first.name.rpartition("/")[2].replace("-", " ").replace("_", " ")
    derived = first.description or derive_description(first.body) or named
    globs = _list_globs(first)
    return f"{derived.rstrip('.')}. For the files {', '.join(globs)}" if globs else derived


def _list_globs(first: Instructions) -> Sequence[str]:
    is_specific = first.globs and not _EVERY_FILE.issuperset(first.globs)
    return first.globs[:_MAX_LISTED_GLOBS] if is_specific else ()


def _compose_body(skill: ImportedSkill) -> str:
    first, *others = skill.sources
    parts = [first.body.strip()]
    parts += [f"## From {other.file}\n\n{other.body.strip()}" for other in others]
    return "\n\n".join(parts)
