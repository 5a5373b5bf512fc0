"""Examples of a skill, ranked by a query.

They are the Markdown files in its folder `examples`, and the tasks listed in the
frontmatter. The caller provides the tokeniser.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from skills_mcp.errors import FileError
from skills_mcp.skills.document import get_text, get_words, parse_document, unique_words
from skills_mcp.skills.model import ProblemList, Skill
from skills_mcp.skills.skill_files import read_head

Tokenize = Callable[[str], Collection[str]]
"""Splits a text into distinct words."""

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
    """A sample of a skill's use, or a task of a user."""

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
    """An example with its score for a query."""

    example: Example
    score: int
    """One for each word in text or title, two for each in the tags; 0 if none."""


@dataclass(frozen=True, slots=True)
class LoadedExamples:
    """The best examples of a skill for a query."""

    skill: Skill
    examples: tuple[FittingExample, ...]
    total: int
    notes: tuple[str, ...]


def is_example_file(file: str) -> bool:
    """Whether a file of a skill is an example.

    >>> [is_example_file(f) for f in ("examples/a.md", "examples/b/a.md")]
    [True, False]
    """
    folder, _, name = file.partition("/")
    is_markdown = "/" not in name and name.casefold().endswith(_SUFFIX)
    return folder.casefold() == _FOLDER and is_markdown


def read_examples(
    skill: Skill, *, max_bytes: int, max_files: int
) -> tuple[tuple[Example, ...], tuple[str, ...]]:
    """Read the example files in path order, with notes on skipped ones."""
    examples: list[Example] = []
    notes: list[str] = []
    files = [file for file in skill.files if is_example_file(file)]
    for file in files[:max_files]:
        try:
            part = read_head(skill, file, max_bytes=max_bytes)
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
    """Parse an example file.

    A `title` and `tags` may stand in a frontmatter; without it, the first heading or
    the name of the file is the title.
    """
    # Only at the very top: further down it is what the example shows.
    begins = text.lstrip(_INVISIBLE).lstrip().startswith("---")
    document = parse_document(text, ProblemList(file), lenient=True) if begins else None
    if document is not None and not document.fields:
        document = None  # two lines across the page
    frontmatter = document.fields if document else {}
    fields = {str(key).casefold(): value for key, value in frontmatter.items()}  # 003
    body = document.body if document else text.strip(_INVISIBLE).strip()
    title = get_text(fields, "title") or _find_heading(body)
    tags = unique_words(get_words(fields, "tags"))[:_MAX_TAGS]
    return Example(
        title=_shorten(title or PurePosixPath(file).stem),
        tags=tuple(map(_shorten, tags)),
        text=body,
        file=file,
        truncated=truncated,
    )


def examples_from_tasks(tasks: Iterable[str]) -> tuple[Example, ...]:
    return tuple(Example(_shorten(task), (), task, None) for task in tasks)


def rank_examples(
    examples: Sequence[Example], query: str, tokenize: Tokenize, *, limit: int
) -> tuple[FittingExample, ...]:
    """Rank examples by a query, stably; the first ones if no example matches."""
    query_tokens = frozenset(tokenize(query))
    scored = [
        FittingExample(example, _score_example(example, query_tokens, tokenize))
        for example in examples
    ]
    fitting = sorted(
        (example for example in scored if example.score),
        key=lambda example: -example.score,
    )
    return tuple((fitting or scored)[:limit])


def truncate_examples(
    chosen: Iterable[FittingExample], *, max_bytes: int
) -> Iterator[FittingExample]:
    """Truncate examples to a total size, the last ones first."""
    remaining = max_bytes
    for fitting in chosen:
        text = _truncate(fitting.example.text, remaining)
        remaining -= _count_bytes(text)
        truncated = fitting.example.truncated or text != fitting.example.text
        yield replace(fitting, example=replace(fitting.example, text=text, truncated=truncated))


def _score_example(example: Example, query_tokens: frozenset[str], tokenize: Tokenize) -> int:
    in_text = query_tokens.intersection(tokenize(f"{example.title}\n{example.text}"))
    in_tags = query_tokens.intersection(tokenize("\n".join(example.tags)))
    return len(in_text) + _TAG_SCORE * len(in_tags)


def _find_heading(text: str) -> str:
    is_code = False
    for line in text.splitlines():
        if line.lstrip().startswith(_FENCES):
            is_code = not is_code
        elif not is_code and (found := _HEADING.match(line)):
            heading = _strip_closing_marks(found[1].strip())
            if heading:
                return heading
    return ""


def _strip_closing_marks(heading: str) -> str:
    """Strip the closing marks of `Title ##`, but not of `Use C#`."""
    bare = heading.rstrip("#")
    return heading if bare and not bare[-1].isspace() else bare.rstrip()


def _shorten(text: str) -> str:
    is_long = len(text) > _MAX_TITLE_CHARACTERS
    return f"{text[: _MAX_TITLE_CHARACTERS - 1]}…" if is_long else text


def _truncate(text: str, max_bytes: int) -> str:
    if _count_bytes(text) <= max_bytes:
        return text
    part = text.encode(errors="replace")[:max_bytes].decode(errors="ignore")
    return part[: part.rfind("\n") + 1] or part


def _count_bytes(text: str) -> int:
    return len(text.encode(errors="replace"))
