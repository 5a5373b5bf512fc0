"""Skills to measure with: sentences of the user's own text, or invented ones.

Skill number n is the same in every process and every run with the same text.
"""

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

from skills_mcp.routing.tokenizer import STOP_WORDS
from skills_mcp.skills.model import Skill, SkillPath
from skills_mcp.skills.source_layout import SkillRoot
from skills_mcp.snapshots.skill_records import decode_skill, encode_skill

BODY_CHARACTERS = 4_000
DESCRIPTION_CHARACTERS = 200  # the median of 65,000 public skills
PROMPT_CHARACTERS = 1_000

_LONG_BODY = (5_000, 60_000)
_LONG_TASK = (1_000, 3_900)  # characters; both ends are read

# Eight on average, as in public skills, and so many of two words that the number of
# distinct ones grows as it does there: 3,000, 12,000, 37,000 with the size.
_KEYWORDS = (4, 12)
_TWO_WORDS = 0.02

_WORD = re.compile(r"[a-z][a-z0-9-]{1,18}[a-z0-9]")
_LINE_CHARACTERS = range(20, 400)
_MOST_LINES = 200_000
_MOST_WORDS = 400_000

_SYLLABLES = "ka ro mi ten sol ver dar lin pex tum bor nis qua fel gry hom jut wex yl zan"


@dataclass(frozen=True, slots=True)
class Text:
    """The words and sentences from which skills and tasks are made."""

    origin: str
    lines: Sequence[str]
    words: Sequence[str]
    """The words in their order, repeated as in the text, without stop words."""
    prompts: Sequence[str]
    lines_per_body: int


def read_text(folders: Sequence[Path]) -> Text:
    """Return the text of Markdown files, and of JSONL files with skills and prompts."""
    lines: list[str] = []
    prompts: list[str] = []
    for file in sorted(file for folder in folders for file in folder.rglob("*.md")):
        lines += file.read_text(encoding="utf-8", errors="replace").splitlines()
    for file in sorted(file for folder in folders for file in folder.rglob("*.jsonl")):
        for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            texts = (row.get("description", ""), row.get("body", ""))
            lines += "\n".join(texts).splitlines()
            prompts += [row["query"][:PROMPT_CHARACTERS]] if "query" in row else []
    lines = [line.strip() for line in lines]
    lines = [x for x in lines if len(x) in _LINE_CHARACTERS and x.isprintable()]
    if not lines:
        raise SystemExit("there is no text in these folders")
    chance = random.Random(5)  # noqa: S311 - the same content in every run
    lines = lines if len(lines) <= _MOST_LINES else chance.sample(lines, _MOST_LINES)
    chance.shuffle(prompts)
    found = _WORD.findall("\n".join(lines).lower())
    return Text(
        origin=f"recombined from {len(lines):,} lines of real text",
        lines=lines,
        words=[word for word in found if word not in STOP_WORDS][:_MOST_WORDS],
        prompts=prompts or _take_prompts(lines, chance),
        lines_per_body=_lines_per_body(lines),
    )


def invent_text() -> Text:
    """Return text of invented words, some of them far more frequent than others."""
    chance = random.Random(7)  # noqa: S311 - the same content in every run
    syllables = _SYLLABLES.split()
    known = list({"".join(chance.choices(syllables, k=k)) for k in (2, 3, 4) * 10_000})
    known.sort()
    chance.shuffle(known)
    weights = [1 / rank for rank in range(1, len(known) + 1)]
    words = chance.choices(known, weights, k=_MOST_WORDS)
    lines = [" ".join(words[at : at + 10]) for at in range(0, len(words), 10)]
    return Text(
        origin="made of invented words",
        lines=lines,
        words=words,
        prompts=_take_prompts(lines, chance),
        lines_per_body=_lines_per_body(lines),
    )


def _take_prompts(lines: Sequence[str], chance: random.Random) -> list[str]:
    return [" ".join(chance.choice(lines).split()[:10]) for _ in range(2_000)]


def _lines_per_body(lines: Sequence[str]) -> int:
    return BODY_CHARACTERS * len(lines) // sum(len(line) + 1 for line in lines)


def make_skill(text: Text, number: int, *, is_package: bool = False) -> Skill:
    """Return one of the skills; the order of their paths is that of the numbers."""
    chance = random.Random(number)  # noqa: S311 - the same content in every run
    name = f"s{number:06}-{chance.choice(text.words)}-{chance.choice(text.words)}"
    path = f"g{number // 100:04}/{name}"
    return Skill(
        path=SkillPath(path),
        file=f"{path}/SKILL.md" if is_package else f"{path}.md",
        name=name,
        description=" ".join(chance.choices(text.lines, k=4))[:DESCRIPTION_CHARACTERS],
        keywords=() if is_package else tuple(dict.fromkeys(_choose_keywords(text, chance))),
        body="\n".join(chance.choices(text.lines, k=text.lines_per_body)),
        inherit=True,
        priority=0,
        assets=(),
        scripts=(),
        directory=None,
    )


def _choose_keywords(text: Text, chance: random.Random) -> Iterator[str]:
    for _ in range(chance.randint(*_KEYWORDS)):
        at = chance.randrange(len(text.words) - 1)
        size = 2 if chance.random() < _TWO_WORDS else 1
        yield " ".join(text.words[at : at + size])


def make_long_skill(text: Text, number: int) -> Skill:
    """Return a package with a text of 5,000 to 60,000 characters, as real ones have."""
    chance = random.Random(number)  # noqa: S311 - the same content in every run
    shortest, longest = _LONG_BODY
    characters = shortest * (longest / shortest) ** chance.random()
    body = "\n".join(_fill(text.lines, characters, chance))
    return replace(make_skill(text, number, is_package=True), body=body)


def make_long_tasks(text: Text, count: int) -> list[str]:
    """Return tasks of 1,000 to 3,900 characters: a sentence, and what was pasted.

    One word of twenty has a letter too few, and one of twenty is two in one.
    """
    chance = random.Random(11)  # noqa: S311 - the same tasks in every run
    tasks = []
    for _ in range(count):
        size = chance.randint(*_LONG_TASK)
        words = " ".join(_fill(text.lines, size, chance)).split(" ")
        for place in chance.sample(range(1, len(words)), len(words) // 20):
            words[place] = words[place][:3] + words[place][4:]
        for place in chance.sample(range(1, len(words)), len(words) // 20):
            words[place] += words[place - 1].title()
        tasks.append(" ".join(words)[:size])
    return tasks


def _fill(lines: Sequence[str], characters: float, chance: random.Random) -> Iterator[str]:
    """Iterate over lines that are together as long as this."""
    while characters > 0:
        line = chance.choice(lines)
        characters -= len(line) + 1
        yield line


class Library(Sequence[Skill]):
    """Many skills in memory, each made when it is read, as in the server."""

    def __init__(self, text: Text, count: int) -> None:
        self._home = SkillRoot(Path())
        self._records = [
            encode_skill(make_skill(text, number), self._home) for number in range(count)
        ]

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, number: int) -> Skill: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[Skill, ...]: ...
    def __getitem__(self, number: int | slice) -> Skill | tuple[Skill, ...]:
        if isinstance(number, slice):
            return tuple(self[each] for each in range(len(self))[number])
        return decode_skill(self._records[number], self._home, [])


def write_skills(folder: Path, text: Text, count: int, *, are_packages: bool) -> None:
    """Write the files of that many skills."""
    for number in range(count):
        skill = make_skill(text, number, is_package=are_packages)
        file = folder / skill.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(render(skill), encoding="utf-8")


def render(skill: Skill) -> str:
    """Return the Markdown file of a skill."""
    fields: dict[str, object] = {"name": skill.name, "description": skill.description}
    if skill.keywords:
        fields = {"description": skill.description, "keywords": list(skill.keywords)}
    # JSON is YAML, so nothing in the text can break out of its field.
    head = "\n".join(f"{key}: {json.dumps(v, ensure_ascii=False)}" for key, v in fields.items())
    return f"---\n{head}\n---\n\n{skill.body}\n"
