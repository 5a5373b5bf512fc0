"""Examples of a skill, and which of them fit a query.

They are the Markdown files in its folder `examples`, and the tasks that its author
lists in the frontmatter. How a text is split into words is for the caller to say.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from skills_mcp.errors import FileError
from skills_mcp.skills.assets import read_beginning
from skills_mcp.skills.document import distinct, parse_document, text_of, words_of
from skills_mcp.skills.model import ProblemList, Skill

Tokenize = Callable[[str], Collection[str]]
"""From a text to its words, each once."""

_FOLDER = "examples"
_SUFFIX = ".md"

_INVISIBLE = "\ufeff\u200b"
_FENCES = ("```", "~~~")
_HEADING = re.compile(r"#{1,6}[ \t](.*)")

# 003: an author who sets a tag says more with it than with a word of the text.
_TAG_SCORE = 2

# Ten of them stand in one answer, where they only say which example it is.
_MAX_TITLE_CHARACTERS = 100
_MAX_TAGS = 20


@dataclass(frozen=True, slots=True)
class Example:
    """How a skill is used, or a task that it is for."""

    title: str
    tags: tuple[str, ...]
    text: str
    """Without the frontmatter."""
    file: str | None
    """As the skill lists it; None for a task of the skill's frontmatter."""
    truncated: bool = False
    """Whether it goes on after this text."""


@dataclass(frozen=True, slots=True)
class FittingExample:
    """An example, and how well it fits a query."""

    example: Example
    score: int
    """One for each word in text or title, two for each in the tags; 0 if none."""


@dataclass(frozen=True, slots=True)
class LoadedExamples:
    """The examples of a skill that fit a query best."""

    skill: Skill
    examples: tuple[FittingExample, ...]
    total: int
    """How many examples there were to choose from."""
    notes: tuple[str, ...]
    """Which files were left out, and why."""


def is_example(file: str) -> bool:
    """Whether a file of a skill is an example.

    >>> [is_example(f) for f in ("examples/a.md", "examples/b/a.md", "examples/a.py")]
    [True, False, False]
    """
    folder, _, name = file.partition("/")
    is_markdown = "/" not in name and name.casefold().endswith(_SUFFIX)
    return folder.casefold() == _FOLDER and is_markdown


def read_examples(
    skill: Skill, *, max_bytes: int, max_files: int
) -> tuple[tuple[Example, ...], tuple[str, ...]]:
    """Read the example files in the order of their paths, and say what is left out.

    Args:
        skill: Only its own files, and none of the skills above.
        max_bytes: Of a longer file only the beginning is read.
        max_files: So many are looked at.
    """
    examples: list[Example] = []
    notes: list[str] = []
    files = [file for file in skill.files if is_example(file)]
    for file in files[:max_files]:
        try:
            part = read_beginning(skill, file, max_bytes=max_bytes)
        except FileError as error:
            notes.append(str(error))
            continue
        if part.content.is_binary:
            notes.append(f"{file!r} is no UTF-8 text, so it was left out.")
            continue
        text = part.content.data.decode("utf-8")
        examples.append(parse_example(text, file=file, truncated=part.truncated))
    if len(files) > max_files:
        notes.append(
            f"Only the first {max_files} of {len(files)} files were searched. "
            "find_skill_files finds the others."
        )
    return tuple(examples), tuple(notes)


def parse_example(text: str, *, file: str, truncated: bool = False) -> Example:
    """Return the example that a file holds.

    A `title` and `tags` may stand in a frontmatter; the first heading, or the name
    of the file, is the title of one without.
    """
    # Only at the very top: further down it is what the example shows.
    begins = text.lstrip(_INVISIBLE).lstrip().startswith("---")
    document = parse_document(text, ProblemList(file), lenient=True) if begins else None
    if document is not None and not document.fields:
        document = None  # two lines across the page
    given = document.fields if document else {}
    fields = {str(key).casefold(): value for key, value in given.items()}  # 003
    body = document.body if document else text.strip(_INVISIBLE).strip()
    title = text_of(fields, "title") or _find_heading(body)
    tags = distinct(words_of(fields, "tags"))[:_MAX_TAGS]
    return Example(
        title=_shorten(title or PurePosixPath(file).stem),
        tags=tuple(map(_shorten, tags)),
        text=body,
        file=file,
        truncated=truncated,
    )


def derive_examples(tasks: Iterable[str]) -> tuple[Example, ...]:
    """Return the tasks of a skill's frontmatter as examples."""
    return tuple(Example(_shorten(task), (), task, None) for task in tasks)


def choose_examples(
    examples: Sequence[Example], query: str, tokenize: Tokenize, *, most: int
) -> tuple[FittingExample, ...]:
    """Return the examples that fit best; the first ones if none fits at all.

    Of those that fit equally well, the one that stands first comes first.
    """
    wanted = frozenset(tokenize(query))
    scored = [FittingExample(each, _score(each, wanted, tokenize)) for each in examples]
    fitting = sorted(
        (each for each in scored if each.score), key=lambda each: -each.score
    )
    return tuple((fitting or scored)[:most])


def cut_examples(
    chosen: Iterable[FittingExample], *, max_bytes: int
) -> Iterator[FittingExample]:
    """Iterate over examples whose texts have together as many bytes as allowed.

    The best come first, so they are whole for as long as there is room.
    """
    room = max_bytes
    for each in chosen:
        text = _cut(each.example.text, room)
        room -= _count_bytes(text)
        truncated = each.example.truncated or text != each.example.text
        yield replace(
            each, example=replace(each.example, text=text, truncated=truncated)
        )


def _score(example: Example, wanted: frozenset[str], tokenize: Tokenize) -> int:
    said = wanted.intersection(tokenize(f"{example.title}\n{example.text}"))
    tagged = wanted.intersection(tokenize("\n".join(example.tags)))
    return len(said) + _TAG_SCORE * len(tagged)


def _find_heading(text: str) -> str:
    """Return the first heading; a comment in code is none."""
    is_code = False
    for line in text.splitlines():
        if line.lstrip().startswith(_FENCES):
            is_code = not is_code
        elif not is_code and (found := _HEADING.match(line)):
            heading = _without_closing(found[1].strip())
            if heading:
                return heading
    return ""


def _without_closing(heading: str) -> str:
    """Return `Title` for `Title ##`, but leave `Use C#` as it is."""
    bare = heading.rstrip("#")
    return heading if bare and not bare[-1].isspace() else bare.rstrip()


def _shorten(text: str) -> str:
    is_long = len(text) > _MAX_TITLE_CHARACTERS
    return f"{text[: _MAX_TITLE_CHARACTERS - 1]}…" if is_long else text


def _cut(text: str, max_bytes: int) -> str:
    """Return the beginning of a text, up to the end of a line if there is one."""
    if _count_bytes(text) <= max_bytes:
        return text
    part = text.encode(errors="replace")[:max_bytes].decode(errors="ignore")
    return part[: part.rfind("\n") + 1] or part


def _count_bytes(text: str) -> int:
    return len(text.encode(errors="replace"))
