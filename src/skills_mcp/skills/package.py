"""From a folder with a `SKILL.md` to a skill.

Lenient, because 70 of 100 public packages break a rule of their own standard: only a
package without any text is not served. What authors should repair is said by
`validate`.
"""

import re
from collections.abc import Mapping
from typing import Any

from skills_mcp.skills.document import (
    always_apply_of,
    distinct,
    entry_of,
    examples_of,
    flag_of,
    mapping_of,
    owner_of,
    parse_document,
    priority_of,
    text_of,
    without_controls,
    words_of,
)
from skills_mcp.skills.model import (
    Asset,
    Inventory,
    Problem,
    ProblemList,
    Script,
    Skill,
    SkillPath,
    Stamp,
)
from skills_mcp.text.hidden_text import without_hidden

MAIN = "SKILL.md"

_SCRIPT = "script"
_SCRIPTS = "scripts"
_REFERENCE = "reference"
_TEMPLATE = "template"
_KINDS = {
    "references": _REFERENCE,
    "reference": _REFERENCE,
    "templates": _TEMPLATE,
    "template": _TEMPLATE,
    "examples": "example",
    "assets": "asset",
}
"""What the files of a folder are for; its name is the authors' convention."""

_TEMPLATE_SUFFIXES = frozenset({".template", ".tmpl", ".tpl", ".j2", ".hbs"})

_RUNNABLE = frozenset(
    {"", ".py", ".sh", ".bash", ".zsh", ".fish", ".js", ".mjs", ".cjs", ".ts"}
    | {".ps1", ".bat", ".cmd", ".rb", ".pl", ".php", ".lua", ".swift", ".applescript"}
)
"""What in `scripts/` is run; the rest there are the scripts' own data."""


# Enough to tell what a package is about, in characters of each part.
_MAX_DERIVED = 300
_MAX_LOOKED_AT = 4000

_CODE = re.compile(r"(?ms)^[ \t]*(`{3,}|~{3,})(?:(?!^[ \t]*\1).)*(?:\1|\Z)|<!--.*?-->")
_HEADING = re.compile(r"(?m)^ {0,3}#{1,6}[ \t]+(.+?)[ \t]*#*$")
# Lines that begin with what is no mark of a heading, list, table, picture or rule.
_PARAGRAPH = re.compile(r"(?m)^(?:[ \t]*[^\s#>|<!\[\-=][^\n]*(?:\n|\Z))+")
_SENTENCE = re.compile(r".+?[.!?\u3002\uff01\uff1f](?=\s|$|[^\x00-\x7f])")
_MARKS = re.compile(r"[*_`]{1,3}|!?\[([^\]]*)\]\([^)]*\)")


def is_main(name: str) -> bool:
    """Whether a file makes its folder a package: `SKILL.md`, in any case."""
    return name.casefold() == MAIN.casefold()


def parse_package(
    text: str, *, file: str, path: SkillPath, files: Mapping[str, Stamp]
) -> tuple[Skill | None, tuple[Problem, ...]]:
    """Return the skill that a package describes, and what is wrong with it.

    Args:
        text: The whole `SKILL.md`.
        file: Its path relative to the content's root, for messages and headers.
        path: The folder's path; empty if it is the root itself.
        files: Every file of the folder, `SKILL.md` included.
    """
    report = ProblemList(file)
    document = parse_document(text, report, lenient=True)
    if document is None:
        return None, report.problems
    fields = document.fields
    description = _description(fields, document.body, report)
    if not description:
        return None, report.problems
    metadata = mapping_of(fields, "metadata")
    both = {**metadata, **fields}
    name = _name(fields, path, report)
    main = file.rpartition("/")[2]
    kinds = {each: classify(each) for each in files if each != main}
    skill = Skill(
        path=path or derive_slug(name),
        file=file,
        name=name,
        description=description,
        keywords=_keywords(fields),
        body=document.body,
        inherit=flag_of(both, "inherit", report, default=True),
        priority=priority_of(both, report),
        assets=tuple(Asset(f, "", k) for f, k in kinds.items() if k != _SCRIPT),
        scripts=tuple(
            Script(f, "", "claude", ()) for f, k in kinds.items() if k == _SCRIPT
        ),
        directory=None,
        category=_category(fields),
        owner=owner_of(fields),
        examples=examples_of(both.get("examples"), report),
        entry=entry_of(both, report),
        always_apply=always_apply_of(fields, report),
        files=files,
        inventory=_take_inventory(kinds, files),
    )
    return skill, report.problems


def derive_slug(name: str) -> SkillPath:
    """Return a path for a package that has no folder below the root.

    >>> derive_slug("StarRocks Debug")
    'starrocks-debug'
    """
    words = "".join(c if c.isalnum() else " " for c in name.casefold()).split()
    return SkillPath("-".join(words) or "skill")


def classify(file: str) -> str:
    """Say what a file of a package is for.

    >>> [classify(f) for f in ("scripts/run.py", "REFERENCE.md", "logo.png")]
    ['script', 'reference', 'other']
    """
    first, slash, _ = file.partition("/")
    suffix = _suffix_of(file)
    folder = first.casefold() if slash else ""
    if folder == _SCRIPTS and suffix in _RUNNABLE:
        return _SCRIPT
    if folder in _KINDS:
        return _KINDS[folder]
    if suffix in _TEMPLATE_SUFFIXES:
        return _TEMPLATE
    return _REFERENCE if suffix == ".md" else "other"


def has_program_suffix(file: str) -> bool:
    """Whether a file is called like a program: `run.py`, but not `run`."""
    return _suffix_of(file) in _RUNNABLE - {""}


def _suffix_of(file: str) -> str:
    """Return the same as `PurePosixPath`, at a tenth of the time: files are many."""
    name = file.rpartition("/")[2]
    place = name.rfind(".")
    return name[place:].lower() if 0 < place < len(name) - 1 else ""


def _name(fields: Mapping[str, Any], path: SkillPath, report: ProblemList) -> str:
    name = text_of(fields, "name")
    if name:
        return name
    folder = path.rsplit("/", 1)[-1] or "skill"
    reason = f"has no name, so {folder} is used"
    report.warn("name", reason, f"add name: {folder}", key="name")
    return folder


def _description(fields: Mapping[str, Any], body: str, report: ProblemList) -> str:
    """Return what the package says of itself, or how its text begins."""
    declared = text_of(fields, "description")
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
    r"""Return the first heading and the first sentence of a Markdown text.

    >>> derive_description("# Fix tests\n\nRun **pytest** first. Then read on.")
    'Fix tests: Run pytest first.'
    """
    looked_at = without_hidden(without_controls(body[:_MAX_LOOKED_AT]))
    text = _CODE.sub("", looked_at)
    heading = _HEADING.search(text)
    title = _plain(heading[1]) if heading else ""
    after = text[heading.end() :] if heading else text
    paragraphs = (_plain(found) for found in _PARAGRAPH.findall(after))
    paragraph = next(filter(None, paragraphs), "")
    sentence = _SENTENCE.match(paragraph)
    first = (sentence[0] if sentence else paragraph)[:_MAX_DERIVED]
    return ": ".join(filter(None, (title[:_MAX_DERIVED], first)))


def _plain(text: str) -> str:
    """Return a line of Markdown without its marks."""
    return " ".join(_MARKS.sub(r"\1", text).split())


def _keywords(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Collect what authors declare in one of the customary places."""
    metadata = mapping_of(fields, "metadata")
    return distinct(
        (
            *words_of(fields, "keywords"),
            *words_of(fields, "tags"),
            *words_of(fields, "triggers"),
            *words_of(metadata, "keywords"),
            *words_of(metadata, "tags"),
            *words_of(mapping_of(metadata, "skillhub"), "tags"),
            *words_of(mapping_of(metadata, "triggers"), "keywords"),
        )
    )


def _category(fields: Mapping[str, Any]) -> str:
    metadata = mapping_of(fields, "metadata")
    found = (
        text_of(mapping_of(metadata, "skillhub"), "category")
        or text_of(metadata, "category")
        or text_of(fields, "category")
    )
    return found.casefold()


def _take_inventory(kinds: Mapping[str, str], files: Mapping[str, Stamp]) -> Inventory:
    """Count the files, and list those of a kind."""

    def select(wanted: str) -> tuple[str, ...]:
        return tuple(file for file, kind in kinds.items() if kind == wanted)

    return Inventory(
        script_files=select(_SCRIPT),
        reference_files=select(_REFERENCE),
        template_files=select(_TEMPLATE),
        total_files=len(files),
        total_size_bytes=sum(stamp.size_bytes for stamp in files.values()),
    )
