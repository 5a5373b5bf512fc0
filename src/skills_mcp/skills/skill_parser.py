"""Parsing of packages (`SKILL.md`) and rule files to skills.

Lenient for packages, because 70 of 100 public ones break a rule of their own standard:
only a package without any text is not served. `validate` reports the rest to authors.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from posixpath import normpath
from typing import Any

from skills_mcp.errors import InvalidPathError
from skills_mcp.files.paths import iterate_folders, parse_relative
from skills_mcp.skills.document import (
    EMPTY_SCALARS,
    decode_markdown,
    get_always_apply,
    get_entry,
    get_examples,
    get_flag,
    get_mapping,
    get_priority,
    get_text,
    get_words,
    is_user_only,
    parse_document,
    remove_controls,
    unique_words,
)
from skills_mcp.skills.lifecycle import parse_lifecycle, parse_relations
from skills_mcp.skills.model import (
    Argument,
    Asset,
    Inventory,
    Problem,
    ProblemList,
    Script,
    Skill,
    SkillPath,
    Stamp,
)
from skills_mcp.skills.version_range import parse_applies_to
from skills_mcp.text.rendering import abbreviate_value
from skills_mcp.text.unicode import strip_hidden

SKILL_MD = "SKILL.md"

MAX_DESCRIPTION = 1024
"""Characters of a description that the Agent Skills standard allows."""

_SCRIPT = "script"
_SCRIPTS = "scripts"
_REFERENCE = "reference"
_TEMPLATE = "template"
_KIND_BY_FOLDER = {
    "references": _REFERENCE,
    "reference": _REFERENCE,
    "templates": _TEMPLATE,
    "template": _TEMPLATE,
    "examples": "example",
    "assets": "asset",
}

_TEMPLATE_SUFFIXES = frozenset({".template", ".tmpl", ".tpl", ".j2", ".hbs"})

_RUNNABLE = frozenset(
    {"", ".py", ".sh", ".bash", ".zsh", ".fish", ".js", ".mjs", ".cjs", ".ts"}
    | {".ps1", ".bat", ".cmd", ".rb", ".pl", ".php", ".lua", ".swift", ".applescript"}
)
"""Runnable files in `scripts/`; the rest there are the scripts' own data."""


# Enough to tell what a package is about, in characters of each part.
_MAX_DERIVED = 300
_MAX_PREVIEW = 4000

_CODE = re.compile(r"(?ms)^[ \t]*(`{3,}|~{3,})(?:(?!^[ \t]*\1).)*(?:\1|\Z)|<!--.*?-->")
_HEADING = re.compile(r"(?m)^ {0,3}#{1,6}[ \t]+(.+?)[ \t]*#*$")
# Lines that begin with what is no mark of a heading, list, table, picture or rule.
_PARAGRAPH = re.compile(r"(?m)^(?:[ \t]*[^\s#>|<!\[\-=][^\n]*(?:\n|\Z))+")
_SENTENCE = re.compile(r".+?[.!?\u3002\uff01\uff1f](?=\s|$|[^\x00-\x7f])")
_MARKS = re.compile(r"[*_`]{1,3}|!?\[([^\]]*)\]\([^)]*\)")


_FOLDED_MAIN, _MAIN_LENGTH = SKILL_MD.casefold(), len(SKILL_MD)
_SEPARATORS = frozenset({"", "/"})


def is_skill_md(name: str) -> bool:
    """Whether a file makes its folder a package: `SKILL.md`, in any case."""
    return len(name) == _MAIN_LENGTH and name.casefold() == _FOLDED_MAIN


def is_package_file(file: str, path: str) -> bool:
    """Whether the file of a skill is a `SKILL.md`, and no rule file of that name.

    >>> is_package_file("hr/SKILL.md", "hr"), is_package_file("hr/skill.md", "hr/skill")
    (True, False)
    """
    # The length first: it is asked of ten thousand files before the first answer.
    if file[-_MAIN_LENGTH - 1 : -_MAIN_LENGTH] not in _SEPARATORS or not is_skill_md(
        file[-_MAIN_LENGTH:]
    ):
        return False
    stem = derive_rule_path(file)
    return path != stem and not path.endswith("/" + "/".join(stem.split("/")[-2:]))


def parse_package(
    text: str, *, file: str, path: SkillPath, files: Mapping[str, Stamp]
) -> tuple[Skill | None, tuple[Problem, ...]]:
    """Parse a package to a skill and its problems; `path` is empty for the root."""
    report = ProblemList(file)
    document = parse_document(text, report, lenient=True)
    if document is None:
        return None, report.problems
    fields = document.fields
    description = _parse_package_description(fields, document.body, report)
    if not description:
        return None, report.problems
    metadata = get_mapping(fields, "metadata")
    both = {**metadata, **fields}
    name = _parse_name(fields, path, report)
    kinds = {name: classify_file(name) for name in files if name != file.rpartition("/")[2]}
    skill = Skill(
        path=path or derive_slug(name),
        file=file,
        name=name,
        description=description,
        keywords=_parse_package_keywords(fields),
        body=document.body,
        inherit=get_flag(both, "inherit", report, default=True),
        priority=get_priority(both, report),
        assets=tuple(Asset(f, "", k) for f, k in kinds.items() if k != _SCRIPT),
        scripts=tuple(Script(f, "", "claude", ()) for f, k in kinds.items() if k == _SCRIPT),
        directory=None,
        category=_parse_category(fields),
        examples=get_examples(both.get("examples"), report),
        entry=get_entry(both, report),
        always_apply=get_always_apply(fields, report) and not is_user_only(fields),
        user_only=is_user_only(fields),
        lifecycle=parse_lifecycle(both, report),
        **parse_relations(both),
        applies_to=parse_applies_to(both, report),
        files=files,
        inventory=_take_inventory(kinds, files),
    )
    return skill, report.problems


def derive_slug(name: str) -> SkillPath:
    """Derive the path of a package at the root.

    >>> derive_slug("StarRocks Debug")
    'starrocks-debug'
    """
    words = "".join(c if c.isalnum() else " " for c in name.casefold()).split()
    return SkillPath("-".join(words) or "skill")


def classify_file(file: str) -> str:
    """Classify a file of a package by its purpose.

    >>> [classify_file(f) for f in ("scripts/run.py", "REFERENCE.md", "logo.png")]
    ['script', 'reference', 'other']
    """
    first, slash, _ = file.partition("/")
    suffix = _suffix_of(file)
    folder = first.casefold() if slash else ""
    if folder == _SCRIPTS and suffix in _RUNNABLE:
        return _SCRIPT
    if folder in _KIND_BY_FOLDER:
        return _KIND_BY_FOLDER[folder]
    if suffix in _TEMPLATE_SUFFIXES:
        return _TEMPLATE
    return _REFERENCE if suffix == ".md" else "other"


def has_purpose(file: str) -> bool:
    """Whether a file lies in a folder that the standard names: `scripts/run.py`."""
    first, slash, _ = file.partition("/")
    return bool(slash) and (first == _SCRIPTS or first in _KIND_BY_FOLDER)


def find_named_files(text: str, file: str, files: Iterable[str]) -> set[str]:
    """Find the files that the text of a file names, or whose folder it names.

    >>> sorted(find_named_files("See docs/a.md, `img`.", "SKILL.md", ["docs/a.md", "img/b"]))
    ['docs/a.md', 'img/b']
    """
    above = file.rpartition("/")[0]
    words = {word.rstrip(".") for word in _PATHS.findall(text)} | set(_QUOTED.findall(text))
    named = {normpath(f"{folder}/{word}") for word in words for folder in {above or ".", "."}}
    found = (name for name in files if not named.isdisjoint((name, *iterate_folders(name))))
    return set(found)


_PATHS = re.compile(r"[\w@.+-]*(?:/[\w@.+-]*)+|[\w@+-]+(?:\.[\w@+-]+)+")
_QUOTED = re.compile(r"`([\w@+-][\w@.+-]*)`")


def has_program_suffix(file: str) -> bool:
    """Whether a file is called like a program: `run.py`, but not `run`."""
    return _suffix_of(file) in _RUNNABLE - {""}


def _suffix_of(file: str) -> str:
    """As `PurePosixPath.suffix`, at a tenth of the time: files are many."""
    name = file.rpartition("/")[2]
    position = name.rfind(".")
    return name[position:].lower() if 0 < position < len(name) - 1 else ""


def _parse_name(fields: Mapping[str, Any], path: SkillPath, report: ProblemList) -> str:
    name = get_text(fields, "name")
    if name:
        return name
    folder = path.rsplit("/", 1)[-1] or "skill"
    reason = f"has no name, so {folder} is used"
    report.warn("name", reason, f"add name: {folder}", key="name")
    return folder


def _parse_package_description(fields: Mapping[str, Any], body: str, report: ProblemList) -> str:
    declared = get_text(fields, "description")
    if declared:
        return declared
    hint = "add what the skill does and when to use it: description: …"
    derived = derive_description(body)
    if derived:
        reason = "has no description, so its first heading and sentence are used"
        report.warn("description", reason, hint, key="description")
    else:
        reason = "has no description, and no text to take one from"
        report.fail("description", reason, hint, key="description")
    return derived


def derive_description(body: str) -> str:
    r"""Derive a description: the first heading and sentence of a Markdown text.

    >>> derive_description("# Fix tests\n\nRun **pytest** first. Then read on.")
    'Fix tests: Run pytest first.'
    """
    looked_at = strip_hidden(remove_controls(body[:_MAX_PREVIEW]))
    text = _CODE.sub("", looked_at)
    heading = _HEADING.search(text)
    title = _strip_markdown(heading[1]) if heading else ""
    after = text[heading.end() :] if heading else text
    paragraphs = (_strip_markdown(found) for found in _PARAGRAPH.findall(after))
    paragraph = next(filter(None, paragraphs), "")
    sentence = _SENTENCE.match(paragraph)
    first = (sentence[0] if sentence else paragraph)[:_MAX_DERIVED]
    return ": ".join(filter(None, (title[:_MAX_DERIVED], first)))


def _strip_markdown(text: str) -> str:
    return " ".join(_MARKS.sub(r"\1", text).split())


def _parse_package_keywords(fields: Mapping[str, Any]) -> tuple[str, ...]:
    metadata = get_mapping(fields, "metadata")
    words = (
        *get_words(fields, "keywords"),
        *get_words(fields, "tags"),
        *get_words(fields, "triggers"),
        *get_words(metadata, "keywords"),
        *get_words(metadata, "tags"),
        *get_words(get_mapping(metadata, "skillhub"), "tags"),
        *get_words(get_mapping(metadata, "triggers"), "keywords"),
    )
    return unique_words(words)


def _parse_category(fields: Mapping[str, Any]) -> str:
    metadata = get_mapping(fields, "metadata")
    found = (
        get_text(get_mapping(metadata, "skillhub"), "category")
        or get_text(metadata, "category")
        or get_text(fields, "category")
    )
    return found.casefold()


def _take_inventory(kinds: Mapping[str, str], files: Mapping[str, Stamp]) -> Inventory:
    def select(selected_kind: str) -> tuple[str, ...]:
        return tuple(file for file, kind in kinds.items() if kind == selected_kind)

    return Inventory(
        script_files=select(_SCRIPT),
        reference_files=select(_REFERENCE),
        template_files=select(_TEMPLATE),
        total_files=len(files),
        total_size_bytes=sum(stamp.size_bytes for stamp in files.values()),
    )


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

    both = {**get_mapping(fields, "metadata"), **fields}
    path = derive_rule_path(file)
    assets = tuple(_parse_assets(fields, report))
    scripts = tuple(_parse_scripts(fields, report))
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
        examples=get_examples(fields.get("examples"), report),
        always_apply=get_always_apply(fields, report),
        lifecycle=parse_lifecycle(fields, report),
        **parse_relations(both),
        applies_to=parse_applies_to(both, report),
    )
    return skill, report.problems


def is_rule_text(raw: bytes) -> bool:
    """Whether a file has the keywords and the description of a rule file, and no name."""
    report = ProblemList("")
    text = decode_markdown(raw, report, lenient=False) if raw[:3] in _HEADS else None
    document = parse_document(text, report, lenient=False) if text else None
    if document is None or get_text(document.fields, "name"):
        return False
    keywords = document.fields.get("keywords")
    return isinstance(keywords, list) and bool(get_text(document.fields, "description"))


_HEADS = frozenset({b"---", b"\xef\xbb\xbf"})


def is_path_text(text: str, suffix: str = "") -> bool:
    """Whether a text is nothing but a path, as of a link that was checked out as text.

    >>> is_path_text("../shared/pdf/SKILL.md"), is_path_text("See ../shared/pdf")
    (True, False)
    """
    return bool(_PATH_TEXT.fullmatch(text.strip())) and text.strip().lower().endswith(suffix)


_PATH_TEXT = re.compile(r"(?:\.{1,2}/)+[^\n:*?\"<>|]{1,255}|(?:[\w.@+-]+/)*[\w.@+-]{1,255}")


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
