"""Additions to skills.

Keywords, clauses and example tasks, tried, accepted and written as patches.

Rules: an addition inserts text at one position of the frontmatter; everything else
stays byte for byte. It is judged by the answers of the same matcher over all tasks with
known skills, never by an estimate.
"""

import difflib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from skills_mcp.features.authoring import OnProgress, ignore_progress
from skills_mcp.features.authoring.evaluation import Outcome, evaluate_snapshot
from skills_mcp.features.authoring.markdown import (
    FRONTMATTER,
    compose_fields,
    dump_scalar,
    find_end,
    is_block_value,
)
from skills_mcp.features.authoring.package_standard import MAX_DESCRIPTION
from skills_mcp.features.authoring.prompts import Prompt
from skills_mcp.library import EditableText, SkillSource, Snapshot, UneditableError, WorkingCopy
from skills_mcp.skills.document import get_examples, get_mapping, get_words
from skills_mcp.skills.model import ProblemList, Skill
from skills_mcp.text.safe_yaml import YamlError, parse_yaml_strings

if TYPE_CHECKING:
    from yaml import MappingNode, Node, ScalarNode, SequenceNode


_METADATA = "metadata"
_KEYWORDS = "keywords"
_EXAMPLES = "examples"
_DESCRIPTION = "description"
_SENTENCE_ENDS = (".", "!", "?", "\u3002")

KEYWORD_KEYS = (
    (_KEYWORDS,),
    ("tags",),
    ("triggers",),
    (_METADATA, _KEYWORDS),
    (_METADATA, "tags"),
    (_METADATA, "skillhub", "tags"),
    (_METADATA, "triggers", _KEYWORDS),
)
"""Keys of keywords in a package, in order of precedence."""

_EXAMPLE_KEYS = ((_EXAMPLES,), (_METADATA, _EXAMPLES))

_BYTE_ORDER_MARK = "\ufeff"
_INDENT = "  "
_LITERAL = "|"

# What is the same in a list, in quotes and without them.
_PLAIN_WORD = re.compile(r"\w(?:[\w.+#-]*[\w+#])?")

_KeyPath = tuple[str, ...]
_Insertion = tuple[int, str]


class UnsafeAdditionError(ValueError):
    """The frontmatter needs a person to edit it; the message says why."""


def add_keywords(raw: bytes, words: Sequence[str], *, is_package: bool) -> bytes:
    """Add keywords to the text of a skill, next to existing ones.

    A package without any gets them below `metadata`.

    Raises:
        UnsafeAdditionError: They cannot be added safely.
    """
    if not all(map(_PLAIN_WORD.fullmatch, words)):
        raise UnsafeAdditionError("a keyword has characters that YAML may misread")
    keys = KEYWORD_KEYS if is_package else KEYWORD_KEYS[:1]
    for word in words:
        raw = _add(raw, _Addition(_KEYWORDS, word, keys, is_package))
    return raw


def add_example(raw: bytes, task: str, *, is_package: bool) -> bytes:
    """Add an example task to the text of a skill.

    `task` is one line without control characters. With `is_package` the Agent Skills
    standard
    applies: `metadata` has only texts.

    Raises:
        UnsafeAdditionError: It cannot be added safely.
    """
    keys = _EXAMPLE_KEYS if is_package else _EXAMPLE_KEYS[:1]
    return _add(raw, _Addition(_EXAMPLES, task, keys, is_package))


def add_clause(raw: bytes, clause: str, *, is_package: bool) -> bytes:
    """Add a sentence to the end of a description.

    Raises:
        UnsafeAdditionError: It cannot be added safely.
    """
    return _edit_frontmatter(raw, partial(_insert_clause, clause=clause, is_package=is_package))


def add_deprecation(raw: bytes, reason: str) -> bytes:
    r"""Mark the text of a skill as deprecated, behind its other fields.

    >>> add_deprecation(b"---\nname: a\n---\n", "No agent got it.")
    b'---\nname: a\ndeprecated: "No agent got it."\n---\n'

    Raises:
        UnsafeAdditionError: It cannot be added safely.
    """
    found = re.match(rb"---[ \t]*\r?\n.*?(\r?\n)(?=---[ \t]*(?:\r?\n|\Z))", raw, re.DOTALL)
    if found is None:
        raise UnsafeAdditionError("no frontmatter begins in its first line")
    line = f"deprecated: {json.dumps(reason)}".encode() + found[1]
    return raw[: found.end()] + line + raw[found.end() :]


@dataclass(frozen=True, slots=True)
class _Addition:
    """A new item of a list in the frontmatter."""

    key: str
    item: str
    keys: tuple[_KeyPath, ...]
    is_package: bool

    def read(self, fields: Mapping[str, Any], key: _KeyPath) -> tuple[str, ...]:
        *folders, last = key
        for folder in folders:
            fields = get_mapping(fields, folder)
        if self.key == _EXAMPLES:
            return get_examples(fields.get(last), ProblemList(""))
        return get_words(fields, last)


def _add(raw: bytes, addition: _Addition) -> bytes:
    return _edit_frontmatter(raw, partial(_insert, addition=addition))


def _edit_frontmatter(raw: bytes, insert: Callable[[str], _Insertion]) -> bytes:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise UnsafeAdditionError("its file is not UTF-8") from None
    if text.count("\r\n") not in {0, text.count("\n")}:
        raise UnsafeAdditionError("its lines end in different ways")
    lines = text.replace("\r\n", "\n")
    start = len(_BYTE_ORDER_MARK) if lines.startswith(_BYTE_ORDER_MARK) else 0
    found = FRONTMATTER.match(lines, start)
    if found is None:
        raise UnsafeAdditionError("no frontmatter begins in its first line")
    position, new = insert(found[1])
    position += found.start(1)
    edited = lines[:position] + new + lines[position:]
    return (edited.replace("\n", "\r\n") if "\r\n" in text else edited).encode("utf-8")


def _parse(block: str) -> tuple["MappingNode", Mapping[str, Any]]:
    """The nodes of a frontmatter, and its values."""
    root = compose_fields(block)
    if root is None:
        raise UnsafeAdditionError("its frontmatter is not YAML with a key on each line")
    before = parse_yaml_strings(block)
    if before.repeated:
        raise UnsafeAdditionError(f"it has {before.repeated[0]} twice in one place")
    return root, before.value


def _insert_clause(block: str, clause: str, *, is_package: bool) -> _Insertion:
    from yaml import ScalarNode

    root, before = _parse(block)
    node = _find(root, (_DESCRIPTION,))
    if not isinstance(node, ScalarNode) or not node.value.strip():
        raise UnsafeAdditionError("its frontmatter has no description")
    end, stop = find_end(node), "" if node.value.rstrip().endswith(_SENTENCE_ENDS) else "."
    expected = " ".join(f"{node.value.rstrip()}{stop} {clause}".split())
    if is_package and len(expected) > MAX_DESCRIPTION:
        raise UnsafeAdditionError(f"its description would have over {MAX_DESCRIPTION:,} characters")
    position, new = end - 1, f"{stop} {clause}"
    if node.style not in {"'", '"'}:
        written = block[:end].rstrip()
        last = written[written.rindex("\n") + 1 :] if node.style else ""
        indent = last[: len(last) - len(last.lstrip())]
        position, new = len(written), f"{stop}\n{indent}{clause}" if node.style else new
    after = _parse_values(block[:position] + new + block[position:])
    key = (_DESCRIPTION,)
    is_read = " ".join(str(after.get(_DESCRIPTION)).split()) == expected
    if not is_read or _others(before, key) != _others(after, key):
        raise UnsafeAdditionError("its description is written as only a person should change it")
    return position, new


def _insert(block: str, addition: _Addition) -> _Insertion:
    root, before = _parse(block)
    key = next(
        (candidate for candidate in addition.keys if _find(root, candidate) is not None),
        None,
    )
    position, new = (
        _begin(block, root, addition) if key is None else _append(block, root, key, addition)
    )
    _check(before, block[:position] + new + block[position:], key, addition)
    return position, new


def _check(
    before: Mapping[str, Any], block: str, key: _KeyPath | None, addition: _Addition
) -> None:
    """Refuse any difference but the new item."""
    after = _parse_values(block)
    key = key or _new_key(addition)
    expected = (*addition.read(before, key), addition.item)
    if addition.read(after, key) != expected or _others(before, key) != _others(after, key):
        raise UnsafeAdditionError(
            f"{'.'.join(key)} is written in a way that only a person should change"
        )


def _parse_values(block: str) -> Mapping[str, Any]:
    try:
        return dict(parse_yaml_strings(block).value)
    except YamlError:
        return {}


def _others(fields: Mapping[str, Any], key: _KeyPath) -> dict[str, Any]:
    """The fields without one key."""
    first, *rest = key
    left = dict(fields)
    value = left.pop(first, None)
    if rest and isinstance(value, dict) and (remaining := _others(value, tuple(rest))):
        left[first] = remaining
    return left


def _new_key(addition: _Addition) -> _KeyPath:
    return (_METADATA, addition.key) if addition.is_package else (addition.key,)


def _find(node: "Node | None", path: _KeyPath) -> "Node | None":
    from yaml import MappingNode

    for key in path:
        if not isinstance(node, MappingNode):
            return None
        values = {name.value: value for name, value in node.value}
        node = values.get(key)
    return node


def _begin(block: str, root: "MappingNode", addition: _Addition) -> _Insertion:
    """A new key with its first item."""
    if not addition.is_package:
        lines = f"{addition.key}:\n{_INDENT}- {dump_scalar(addition.item)}\n"
        return _end_of_line(block, len(block), lines)
    metadata = _find(root, (_METADATA,))
    if metadata is None:
        lines = f"{_METADATA}:\n{_field(addition, _INDENT)}"
        return _end_of_line(block, len(block), lines)
    if not is_block_value(metadata):
        raise UnsafeAdditionError("metadata is no mapping with a key per line")
    indent = " " * metadata.start_mark.column
    return _end_of_line(block, find_end(metadata), _field(addition, indent))


def _field(addition: _Addition, indent: str) -> str:
    """A key of `metadata`; its value has to be a text."""
    if addition.key == _EXAMPLES:
        return f"{indent}{_EXAMPLES}: {_LITERAL}\n{indent}{_INDENT}{addition.item}\n"
    return f"{indent}{addition.key}: {dump_scalar(addition.item)}\n"


def _append(block: str, root: "MappingNode", key: _KeyPath, addition: _Addition) -> _Insertion:
    """A new item, in the style of the others."""
    from yaml import ScalarNode, SequenceNode

    node = _find(root, key)
    if isinstance(node, SequenceNode):
        return _append_item(block, node, addition)
    if isinstance(node, ScalarNode) and node.value.strip():
        return _append_text(block, node, addition)
    raise UnsafeAdditionError(f"{'.'.join(key)} is neither a list nor a text")


def _append_item(block: str, node: "SequenceNode", addition: _Addition) -> _Insertion:
    if is_block_value(node):
        item = _quote_like(node, addition.item) or dump_scalar(addition.item)
        line = f"{' ' * node.start_mark.column}- {item}\n"
        return _end_of_line(block, find_end(node), line)
    quoted = json.dumps(addition.item, ensure_ascii=False)
    plain = addition.item if _is_plain(addition.item) else quoted
    item = _quote_like(node, addition.item) or plain
    if node.value:
        return find_end(node.value[-1]), f", {item}"
    return node.start_mark.index + 1, item


def _quote_like(node: "SequenceNode", item: str) -> str:
    """Quote an item like the others, if these agree."""
    styles = {getattr(sibling, "style", None) for sibling in node.value}
    if styles == {'"'}:
        return json.dumps(item, ensure_ascii=False)
    return "'{}'".format(item.replace("'", "''")) if styles == {"'"} else ""


def _append_text(block: str, node: "ScalarNode", addition: _Addition) -> _Insertion:
    if addition.key == _EXAMPLES:
        if node.style != _LITERAL:
            raise UnsafeAdditionError("its examples are no list, and no text with |")
        written = block[: find_end(node)].rstrip()
        last = written[written.rindex("\n") + 1 :]
        indent = last[: len(last) - len(last.lstrip())]
        return _end_of_line(block, len(written), f"{indent}{addition.item}\n")
    if node.style in {"'", '"'}:
        return find_end(node) - 1, f", {addition.item}"
    return len(block[: find_end(node)].rstrip()), f", {addition.item}"


def _is_plain(item: str) -> bool:
    """Whether an item needs no quotes in a flow sequence."""
    return bool(_PLAIN_WORD.fullmatch(item)) and dump_scalar(item) == item


def _end_of_line(block: str, position: int, lines: str) -> _Insertion:
    if position == 0 or block[position - 1] == "\n":
        return position, lines
    end = block.find("\n", position)
    if end < 0:
        return len(block), f"\n{lines}"
    return end + 1, lines


_NO_NEWLINE = b"\n\\ No newline at end of file\n"
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_FIRST_PRINTABLE, _DELETE = 0x20, 0x7F


@dataclass(frozen=True, slots=True)
class ChangedText:
    editable: EditableText
    new: bytes

    @property
    def diff(self) -> bytes:
        return compose_diff(self.editable.file, self.editable.raw, self.new)


@dataclass(frozen=True, slots=True)
class Patch:
    """Changes in one source: `git apply` works in one repository."""

    source: SkillSource
    diff: bytes

    @property
    def name(self) -> str:
        """The value of `--source`: the mount, or else the address."""
        return self.source.mount or self.source.name

    @property
    def where(self) -> str:
        """The directory for `git apply`."""
        if self.source.mode == "local":
            return f"in {self.source.top}"
        return f"at the top of a clone of {self.source.name}"


def compose_patches(texts: Iterable[ChangedText]) -> tuple[Patch, ...]:
    """Group changed texts by source, in their order."""
    diffs: defaultdict[SkillSource, bytes] = defaultdict(bytes)
    for text in texts:
        diffs[text.editable.source] += text.diff
    return tuple(Patch(source, diff) for source, diff in diffs.items())


def compose_diff(file: str, old: bytes, new: bytes) -> bytes:
    r"""A unified diff with a Git header; empty without a change.

    `file` is relative to the top of the repository, with forward slashes.

    >>> print(compose_diff("a.md", b"one\n", b"one\ntwo\n").decode())
    diff --git a/a.md b/a.md
    --- a/a.md
    +++ b/a.md
    @@ -1 +1,2 @@
     one
    +two
    <BLANKLINE>
    """
    before, after = _quote_path(f"a/{file}"), _quote_path(f"b/{file}")
    lines = difflib.diff_bytes(
        difflib.unified_diff,
        _split_lines(old),
        _split_lines(new),
        # A tab ends a name that has a space in it.
        f"{before}\t".encode() if " " in before else before.encode(),
        f"{after}\t".encode() if " " in after else after.encode(),
    )
    hunks = b"".join(line if line.endswith(b"\n") else line + _NO_NEWLINE for line in lines)
    return f"diff --git {before} {after}\n".encode() + hunks if hunks else b""


def _split_lines(raw: bytes) -> list[bytes]:
    """Lines as in Git: they end at a line feed and nowhere else."""
    return re.findall(rb"[^\n]*\n|[^\n]+", raw)


def _quote_path(path: str) -> str:
    """Quote a path as Git does."""
    if not any(_is_special(character) for character in path):
        return path
    return f'"{"".join(map(_escape, path))}"'


def _is_special(character: str) -> bool:
    return character in _ESCAPES or not _FIRST_PRINTABLE <= ord(character) != _DELETE


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return f"\\{ord(character):03o}" if _is_special(character) else character


MAX_TRIALS = 60
"""Additions to try: each builds an index and routes every task."""

MAX_WORDS_TOGETHER = 3
"""Words of one skill to try together; more would overfit these tasks."""

MAX_ADDED_EXAMPLES = 3
"""Example tasks to add to one skill."""

_MISREAD = "its frontmatter would not be read as before"

RejectionReason = Literal["no-gain", "harm", "unsafe", "limit"]
"""Why an addition is left out of the diff."""


@dataclass(frozen=True, slots=True)
class WordAddition:
    skill: str
    words: tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """What is proposed once."""
        return self.words


@dataclass(frozen=True, slots=True)
class ClauseAddition:
    """A sentence of a description, by which agents choose from a list."""

    skill: str
    words: tuple[str, ...]
    other: str = ""
    """The skill that is right for tasks with these words; empty for `skill`."""

    @property
    def text(self) -> str:
        words = " or ".join(self.words)
        if self.other:
            return f"Not for {words} (use {self.other})."
        return f"Use when the task is about {words}."

    @property
    def keys(self) -> tuple[str, ...]:
        """What is proposed once; a word that was no keyword is none of a clause."""
        return tuple(f"{word} ({self.other})" if self.other else word for word in self.words)


@dataclass(frozen=True, slots=True)
class TaskAddition:
    skill: str
    task: str

    @property
    def keys(self) -> tuple[str, ...]:
        """What is proposed once."""
        return (self.task,)


Addition = WordAddition | ClauseAddition | TaskAddition


@dataclass(frozen=True, slots=True)
class AcceptedAddition:
    addition: Addition
    gains: tuple[str, ...]
    """Tasks with a better answer; none for an example task, and for most clauses."""


@dataclass(frozen=True, slots=True)
class RejectedAddition:
    addition: Addition
    reason: RejectionReason
    detail: str
    """Advice to a person, or a task with a worse answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Improvement:
    """The remaining additions, and their effect on all tasks."""

    accepted: tuple[AcceptedAddition, ...]
    rejected: tuple[RejectedAddition, ...]
    texts: tuple[ChangedText, ...]
    """In the order of their files."""
    before: tuple[Outcome, ...]
    after: tuple[Outcome, ...]
    """Of the same tasks, with all kept additions."""


def rate_outcome(outcome: Outcome) -> int:
    """2 for the right skill, 1 for a list with it, else 0."""
    return outcome.is_right() + outcome.is_right(is_strict=True)


class LaterAdditions(NamedTuple):
    """Additions that depend on which keywords are kept."""

    find_clauses: Callable[
        [Mapping[str, Sequence[str]], Sequence[Outcome]], Iterable[ClauseAddition]
    ]
    """For the words of skills by which no task gets better, and for the answers then."""
    find_tasks: Callable[[Sequence[AcceptedAddition]], Iterable[TaskAddition]]


def try_additions(
    copy: WorkingCopy,
    prompts: Sequence[Prompt],
    words: Sequence[WordAddition],
    later: LaterAdditions,
    on_progress: OnProgress = ignore_progress,
) -> Improvement:
    """Try additions in order, and keep those with better and no worse answers.

    Blocking.

    Args:
        copy: Of the served content.
        prompts: All tasks with known answers.
        words: Keywords, the best ones first.
        later: Clauses, which may change no answer for the worse, and example tasks, of
            which the first ones of a skill are added if the skill then answers them.
        on_progress: Called after each addition.
    """
    trials = _Trials(copy, prompts)
    queue = words[:MAX_TRIALS]
    for addition in words[MAX_TRIALS:]:
        trials.reject(addition, "limit", f"only {MAX_TRIALS} additions are tried at once")
    for done, addition in enumerate(queue, 1):
        trials.try_words(addition)
        on_progress(done, len(queue))
    for addition in _combine_words(trials.idle):
        trials.try_words(addition)
    clauses = [*later.find_clauses(trials.idle, trials.outcomes)]
    for clause in clauses[:MAX_TRIALS]:
        trials.try_clause(clause)
    trials.add_tasks(later.find_tasks(tuple(trials.accepted)))
    return trials.conclude()


def _combine_words(idle: Mapping[str, Sequence[str]]) -> Iterator[WordAddition]:
    """Combine words without an effect of their own, by skill."""
    for skill, words in idle.items():
        for number in range(2, min(len(words), MAX_WORDS_TOGETHER) + 1):
            yield WordAddition(skill, tuple(words[:number]))


class _Trials:
    """State of the trials: kept additions and the answers with them."""

    def __init__(self, copy: WorkingCopy, prompts: Sequence[Prompt]) -> None:
        self._copy = copy
        self._served = copy.served
        self._prompts = prompts
        self._before = evaluate_snapshot(prompts, copy.served)
        self.outcomes = self._before
        self._locations: dict[Path, EditableText] = {}
        self._texts: dict[Path, bytes] = {}
        self.accepted: list[AcceptedAddition] = []
        self._dropped: dict[Addition, RejectedAddition] = {}
        self.idle: defaultdict[str, list[str]] = defaultdict(list)
        """By skill, the words that no task gets better by when they are alone."""

    def reject(self, addition: Addition, reason: RejectionReason, detail: str) -> None:
        self._dropped[addition] = RejectedAddition(addition, reason, detail)

    def try_words(self, addition: WordAddition) -> None:
        """Keep keywords if a task gets better, and none worse."""
        is_joined = len(addition.words) > 1
        if is_joined and not set(addition.words) <= set(self.idle[addition.skill]):
            return  # one of them was kept with others meanwhile
        if self._keep(addition, partial(add_keywords, words=addition.words)) and not is_joined:
            self.idle[addition.skill] += addition.words
            self.reject(addition, "no-gain", "")

    def try_clause(self, addition: ClauseAddition) -> None:
        """Keep a clause if no task gets worse."""
        self._keep(addition, partial(add_clause, clause=addition.text))

    def _keep(self, addition: WordAddition | ClauseAddition, change: Callable[..., bytes]) -> bool:
        """Keep an addition unless it does harm, and keywords if they help; True if idle."""
        skill = self._served.index.require(addition.skill)
        try:
            location, new, snapshot = self._serve(skill, change)
        except (UnsafeAdditionError, UneditableError) as error:
            self.reject(addition, "unsafe", str(error))
            return False
        outcomes = evaluate_snapshot(self._prompts, snapshot)
        gains, losses = _compare(self.outcomes, outcomes)
        if losses:
            self.reject(addition, "harm", losses[0])
        elif gains or isinstance(addition, ClauseAddition):
            self._accept(AcceptedAddition(addition, gains), location, new)
            self.outcomes = outcomes
        return not (gains or losses)

    def add_tasks(self, additions: Iterable[TaskAddition]) -> None:
        """Keep the first example tasks of each skill, if it answers them."""
        number: Counter[str] = Counter()
        before = dict(self._texts)
        for addition in additions:
            if number[addition.skill] < MAX_ADDED_EXAMPLES and self._answers(addition):
                number[addition.skill] += 1
                self._add_task(addition)
        # An example changes no answer, so that all of them are served at once.
        snapshot = self._copy.serve(self._texts) if number else self._served
        for skill in map(self._served.index.require, number):
            if not _is_unchanged(skill, snapshot):
                self._revert_tasks(skill, before)

    def _answers(self, addition: TaskAddition) -> bool:
        return any(
            outcome.answers == (addition.skill,) and outcome.is_right(is_strict=True)
            for outcome in self.outcomes
            if outcome.prompt.query == addition.task
        )

    def _add_task(self, addition: TaskAddition) -> None:
        skill = self._served.index.require(addition.skill)
        try:
            location, new = self._edit(skill, partial(add_example, task=addition.task))
        except (UnsafeAdditionError, UneditableError) as error:
            self.reject(addition, "unsafe", str(error))
        else:
            self._accept(AcceptedAddition(addition, ()), location, new)

    def _revert_tasks(self, skill: Skill, before: Mapping[Path, bytes]) -> None:
        """Revert the example tasks of a skill: they broke it."""
        location = self._locate(skill)
        del self._texts[location]
        if location in before:
            self._texts[location] = before[location]
        for accepted in tuple(self.accepted):
            addition = accepted.addition
            if isinstance(addition, TaskAddition) and addition.skill == skill.path:
                self.accepted.remove(accepted)
                self.reject(addition, "unsafe", _MISREAD)

    def conclude(self) -> Improvement:
        """Judge all kept additions together once more."""
        after = self._before
        if self._texts:
            after = evaluate_snapshot(self._prompts, self._copy.serve(self._texts))
        texts = (
            ChangedText(self._locations[location], new) for location, new in self._texts.items()
        )
        return Improvement(
            accepted=tuple(self.accepted),
            rejected=tuple(self._dropped.values()),
            texts=tuple(sorted(texts, key=lambda t: (t.editable.source.name, t.editable.file))),
            before=self._before,
            after=after,
        )

    def _accept(self, addition: AcceptedAddition, location: Path, new: bytes) -> None:
        self.accepted.append(addition)
        self._texts[location] = new
        if not isinstance(addition.addition, TaskAddition):
            skill, words = addition.addition.skill, addition.addition.words
            idle = self.idle[skill]
            self.idle[skill] = [word for word in idle if word not in words]
            for word in words:
                self._dropped.pop(WordAddition(skill, (word,)), None)

    def _serve(self, skill: Skill, change: Callable[..., bytes]) -> tuple[Path, bytes, Snapshot]:
        """Load a snapshot with the changed text of a skill.

        Raises:
            UnsafeAdditionError: The skill would change in more than the addition.
            UneditableError: The text cannot be changed.
        """
        location, new = self._edit(skill, change)
        snapshot = self._copy.serve({**self._texts, location: new})
        if not _is_unchanged(skill, snapshot):
            raise UnsafeAdditionError(_MISREAD)
        return location, new, snapshot

    def _locate(self, skill: Skill) -> Path:
        assert skill.location is not None, "it was read"  # noqa: S101
        return skill.location

    def _edit(self, skill: Skill, change: Callable[..., bytes]) -> tuple[Path, bytes]:
        text = self._copy.read(skill)
        location = self._locate(skill)
        self._locations[location] = text
        raw = self._texts.get(location, text.raw)
        return location, change(raw, is_package=skill.inventory is not None)


def _is_unchanged(skill: Skill, snapshot: Snapshot) -> bool:
    """Whether a skill is unchanged but for additions."""
    after = snapshot.index.get(skill.path)
    if after and after.description.startswith(skill.description):  # a clause follows it
        after = replace(after, description=skill.description)
    return after is not None and _describe(after) == _describe(skill)


def _describe(skill: Skill) -> tuple[object, ...]:
    return (
        *(skill.name, skill.description, skill.body, skill.inherit, skill.priority),
        *(skill.assets, skill.scripts, skill.category, skill.owner, skill.entry),
    )


def _compare(
    before: Sequence[Outcome], after: Sequence[Outcome]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Tasks with better answers, and with worse ones."""
    rated = [
        (new.prompt.query, rate_outcome(new) - rate_outcome(old))
        for old, new in zip(before, after, strict=True)
    ]
    gains = tuple(query for query, change in rated if change > 0)
    return gains, tuple(query for query, change in rated if change < 0)
