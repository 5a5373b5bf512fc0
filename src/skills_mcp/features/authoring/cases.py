"""Experiment cases of a skill, from `evals/evals.json` and YAML files in `evals`.

Sources: the evals of agentskills.io and of skill-creator, whose files need no change,
and `checks`, which a program decides.

Rule: what cannot be understood is a finding that names it; the rest of a file counts.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, Literal, cast, get_args

from skills_mcp.errors import InvalidPathError, MissingFileError
from skills_mcp.files.opening import open_inside
from skills_mcp.files.paths import parse_relative
from skills_mcp.skills.model import Skill
from skills_mcp.skills.skill_index import INDEX, ROOT
from skills_mcp.skills.skill_parser import is_skill_md
from skills_mcp.text.rendering import abbreviate_value
from skills_mcp.text.safe_yaml import YamlError, parse_yaml

EVALS = "evals"
EVALS_FILE = "evals.json"
_YAML = frozenset({".yaml", ".yml"})
_MAX_BYTES = 1024 * 1024
_MAX_INPUT_BYTES = 64 * 1024 * 1024  # of a file that a case copies
DEFAULT_TIMEOUT_SECONDS = 600.0
"""Twice what agents take for the tasks of public evals."""

_SHAPE = "write a list of {prompt: …}, or {skill: PATH, evals: [...]}"
_DIGITS = 16

CheckVerb = Literal["command", "file", "json", "changes_only", "output"]
_TESTS: Mapping[str, tuple[str, ...]] = {
    "file": ("exists", "contains", "matches", "lacks"),
    "output": ("contains", "matches", "lacks"),
}
_ROUTING_KEYS = frozenset({"expect", "avoid", "ambiguous", "within", "category", "should_trigger"})
_KEYS = _ROUTING_KEYS | {
    *("id", "name", "description", "prompt", "query", "files", "assertions", "expectations"),
    *("expected_output", "checks", "setup", "timeout"),
}


@dataclass(frozen=True, slots=True)
class CaseFinding:
    """An error in an eval file, or in a prompt or a file of prompts."""

    origin: str
    reason: str

    def __str__(self) -> str:
        return f"{self.origin}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that a program decides after a run."""

    verb: CheckVerb
    subject: str
    """Command, path of a file, or empty."""
    test: str = ""
    value: Any = None

    def __str__(self) -> str:
        words = (self.verb, self.subject, self.test, "" if self.value is None else self.value)
        return " ".join(filter(None, map(_render_word, words)))


def _render_word(word: Any) -> str:
    return word if isinstance(word, str) else json.dumps(word, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A task for an agent, and how its result is judged."""

    id: str
    prompt: str
    skill: str = ""
    """Path of the skill that the file names; empty for its owner."""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Content by path in the work folder."""
    assertions: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    setup: tuple[str, ...] = ()
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    origin: str = ""

    @property
    def digest(self) -> str:
        """Digest of everything that decides about a result."""
        files = {name: sha256(data).hexdigest() for name, data in sorted(self.files.items())}
        checks = [str(check) for check in self.checks]
        parts = (self.prompt, files, self.assertions, checks, self.setup, self.timeout_seconds)
        return sha256(json.dumps(parts).encode()).hexdigest()[:_DIGITS]


@dataclass(frozen=True, slots=True)
class EvalFile:
    """Entries of an eval file, and the skill that it names."""

    entries: tuple[Any, ...]
    skill: str = ""


class EvalFileError(ValueError):
    """Unreadable eval file; the message has the reason."""


def parse_eval_file(data: Any) -> EvalFile:
    """Parse the outer shape, which the tests of routing share.

    Raises:
        EvalFileError: It has no list of entries.
    """
    if isinstance(data, list):
        return EvalFile(tuple(data))
    if isinstance(data, dict) and isinstance(data.get("evals"), list):
        named = data.get("skill") or data.get("skill_name") or ""
        return EvalFile(tuple(data["evals"]), named if isinstance(named, str) else "")
    raise EvalFileError(f"has no list of tasks: {_SHAPE}")


def find_evals_folder(skill: Skill) -> Path | None:
    """Folder with the `evals` of a skill; of a rule file it has the same name."""
    location = skill.location
    if location is None:
        return None
    if is_skill_md(location.name) or location.stem in {INDEX, ROOT}:
        return location.parent
    return location.with_suffix("")


def list_eval_files(folder: Path | None) -> list[str]:
    """Files with cases in `evals`, relative to the folder above.  Lists the folder."""
    if folder is None:
        return []
    try:
        entries = sorted((folder / EVALS).iterdir())
    except OSError:
        return []
    names = (path.name for path in entries if path.is_file() and not path.is_symlink())
    return [f"{EVALS}/{name}" for name in names if is_eval_file(name)]


def is_eval_file(name: str) -> bool:
    return name == EVALS_FILE or PurePosixPath(name).suffix.lower() in _YAML


def read_eval_file(folder: Path, file: str) -> EvalFile:
    """Read an eval file.

    Raises:
        EvalFileError: It is neither JSON nor YAML, or has another shape.
    """
    is_json = file.endswith(".json")
    try:
        with open_inside(folder, tuple(file.split("/"))) as handle:
            text = handle.read(_MAX_BYTES + 1).decode("utf-8-sig")
        data = json.loads(text) if is_json else parse_yaml(text)
    except (OSError, MissingFileError, ValueError, RecursionError, YamlError) as error:
        kind = "JSON" if is_json else "YAML"
        reason = f" ({error})" if isinstance(error, YamlError) else ""
        raise EvalFileError(f"is not {kind} that can be read{reason}: {_SHAPE}") from error
    return parse_eval_file(data)


def load_cases(folder: Path | None, origin: str) -> Iterator[Case | CaseFinding]:
    """Load all cases of an `evals` folder.  Entries about routing alone are none."""
    for file in list_eval_files(folder) if folder else ():
        name = f"{origin}/{file}" if origin else file
        try:
            found = read_eval_file(cast("Path", folder), file)
        except EvalFileError as error:
            yield CaseFinding(name, str(error))
            continue
        # skill_name is the name of the owner; only `skill` names another one.
        skill = found.skill if not file.endswith(".json") else ""
        for number, entry in enumerate(found.entries, 1):
            where = f"{name}, entry {number}"
            if not is_routing_entry(entry):
                yield from _parse_case(entry, number, where, cast("Path", folder), skill)


def is_routing_entry(entry: Any) -> bool:
    """Whether an entry tests routing alone: it expects an answer and no work."""
    if not isinstance(entry, dict):
        return False
    has_result = entry.keys() & {"checks", "assertions", "expectations", "expected_output"}
    return not has_result and bool(entry.keys() & _ROUTING_KEYS)


def _parse_case(
    entry: Any, number: int, origin: str, folder: Path, skill: str
) -> Iterator[Case | CaseFinding]:
    if not isinstance(entry, dict):
        yield CaseFinding(origin, f"is not a mapping, but {abbreviate_value(entry)}")
        return
    parser = _CaseParser(entry, folder)
    case = parser.parse(str(entry.get("id") or entry.get("name") or number), origin, skill)
    yield from (CaseFinding(origin, reason) for reason in parser.reasons)
    if case:
        yield case


class _CaseParser:
    """Parser of one entry; `reasons` collects its errors."""

    def __init__(self, entry: Mapping[str, Any], folder: Path) -> None:
        self._entry = entry
        self._folder = folder
        self.reasons = [
            f"{abbreviate_value(key)} is unknown: the keys are {', '.join(sorted(_KEYS))}"
            for key in entry
            if key not in _KEYS
        ]

    def parse(self, identity: str, origin: str, skill: str) -> Case | None:
        prompt = next((self._entry[k] for k in ("prompt", "query") if self._entry.get(k)), None)
        if not isinstance(prompt, str) or not prompt.strip():
            self.reasons.append("has no prompt: write the task as a user would")
            return None
        known = len(self.reasons)
        case = Case(
            id=identity,
            prompt=prompt.strip(),
            skill=skill.strip("/"),
            files=dict(self._read_files()),
            assertions=tuple(self._parse_assertions()),
            checks=tuple(self._parse_checks()),
            setup=tuple(self._parse_texts("setup")),
            timeout_seconds=self._parse_timeout(),
            origin=origin,
        )
        if len(self.reasons) > known:
            return None  # with a part of its checks, a case would pass for another one
        if not (case.checks or case.assertions):
            self.reasons.append("says nowhere what a good result is: add checks or assertions")
            return None
        return case

    def _parse_texts(self, key: str) -> Iterator[str]:
        value = self._entry.get(key)
        for item in value if isinstance(value, list) else [value] if value is not None else []:
            text = item.get("text") if isinstance(item, dict) else item
            if isinstance(text, str) and text.strip():
                yield text.strip()
            else:
                self.reasons.append(f"{key} must be texts, not {abbreviate_value(item)}")

    def _parse_assertions(self) -> Iterator[str]:
        found = [t for key in ("assertions", "expectations") for t in self._parse_texts(key)]
        yield from found or self._parse_texts("expected_output")

    def _parse_timeout(self) -> float:
        value = self._entry.get("timeout", DEFAULT_TIMEOUT_SECONDS)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return float(value)
        self.reasons.append(f"timeout must be seconds, not {abbreviate_value(value)}")
        return DEFAULT_TIMEOUT_SECONDS

    def _parse_checks(self) -> Iterator[Check]:
        value = self._entry.get("checks", [])
        for item in value if isinstance(value, list) else [value]:
            try:
                yield parse_check(item)
            except ValueError as error:
                self.reasons.append(str(error))

    def _read_files(self) -> Iterator[tuple[str, bytes]]:
        value = self._entry.get("files") or []
        if isinstance(value, dict):
            for name, text in value.items():
                if self._is_inside(str(name)) and isinstance(text, str):
                    yield str(PurePosixPath(str(name))), text.encode()
                else:
                    self.reasons.append(f"files: {abbreviate_value(name)} must be a path: text")
            return
        for name in value if isinstance(value, list) else [value]:
            if isinstance(name, str) and self._is_inside(name):
                yield from self._read_inputs(name)
            else:
                self.reasons.append(f"files: {abbreviate_value(name)} is no path in the skill")

    def _read_inputs(self, name: str) -> Iterator[tuple[str, bytes]]:
        """Read a file, or all files of a folder, of the skill or of its `evals`."""
        base = next((b for b in ("", EVALS) if (self._folder / b / name).exists()), None)
        if base is None:
            self.reasons.append(f"files: {name} does not exist in {self._folder.name}")
            return
        path = self._folder / base / name
        found = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in found:
            inside = file.relative_to(self._folder).as_posix()
            try:
                with open_inside(self._folder, tuple(inside.split("/"))) as handle:
                    yield _place(inside), handle.read(_MAX_INPUT_BYTES)
            except (OSError, MissingFileError):
                self.reasons.append(f"files: {inside} is no readable file, or a link")

    @staticmethod
    def _is_inside(name: str) -> bool:
        try:
            return bool(parse_relative(name))
        except InvalidPathError:
            return False


def _place(file: str) -> str:
    """Path in the work folder: without the folders in which evals keep their files.

    >>> _place("evals/files/app/main.py"), _place("evals/a.csv"), _place("b.txt")
    ('app/main.py', 'a.csv', 'b.txt')
    """
    return file.removeprefix(f"{EVALS}/").removeprefix("files/")


def parse_check(value: Any) -> Check:
    """Parse a check: an object with one verb.

    Raises:
        ValueError: It is unknown; the message says what to write.
    """
    verbs = [verb for verb in get_args(CheckVerb) if isinstance(value, dict) and verb in value]
    if len(verbs) != 1:
        names = ", ".join(get_args(CheckVerb))
        raise ValueError(f"check {abbreviate_value(value)} must have one verb of {names}")
    verb: CheckVerb = cast("CheckVerb", verbs[0])
    subject, rest = value[verb], {key: v for key, v in value.items() if key != verb}
    match verb:
        case "command" if isinstance(subject, str) and subject.strip() and not rest:
            return Check(verb, subject)
        case "changes_only" if _are_texts(subject) and not rest:
            return Check(verb, "", value=[subject] if isinstance(subject, str) else subject)
        case "json" if isinstance(subject, str) and rest.keys() == {"at", "equals"}:
            parse_json_path(rest["at"])
            return Check(verb, subject, str(rest["at"]), rest["equals"])
        case "file" if isinstance(subject, str) and len(rest) == 1:
            return _parse_test(verb, subject, rest)
        case "output" if isinstance(subject, dict) and len(subject) == 1 and not rest:
            return _parse_test(verb, "", subject)
        case "output" if isinstance(subject, str) and not rest:
            test, _, text = subject.partition(" ")
            return _parse_test(verb, "", {test: text})
    raise ValueError(f"check {abbreviate_value(value)} is not understood: {_EXAMPLES[verb]}")


_EXAMPLES: Mapping[CheckVerb, str] = {
    "command": "write {command: pytest -q}",
    "file": "write {file: PATH, exists: true}, or contains, matches or lacks with a text",
    "json": "write {json: PATH, at: $.name, equals: VALUE}",
    "changes_only": "write {changes_only: [src/*.py]}",
    "output": "write {output: {contains: TEXT}}, or matches or lacks",
}


def _parse_test(verb: CheckVerb, subject: str, tests: Mapping[Any, Any]) -> Check:
    ((test, value),) = tests.items()
    is_flag = test == "exists" and isinstance(value, bool)
    if test not in _TESTS[verb] or not (is_flag or (test != "exists" and isinstance(value, str))):
        wrong = {verb: subject or "…", test: value}
        raise ValueError(f"check {abbreviate_value(wrong)} is not understood: {_EXAMPLES[verb]}")
    if test == "matches":
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"{value!r} is no regular expression: {error}") from error
    return Check(verb, subject, test, value)


def _are_texts(value: Any) -> bool:
    items: Iterable[Any] = value if isinstance(value, list) else [value]
    return bool(value) and all(isinstance(item, str) for item in items)


_STEP = re.compile(r"\.(?P<name>[\w-]+)|\[(?P<index>-?\d+)\]|\[(['\"])(?P<key>.*?)\3\]")


def parse_json_path(path: Any) -> Sequence[str | int]:
    """Parse the part of JSONPath (RFC 9535) that names one value.

    >>> parse_json_path("$.a[0]['b c']")
    ['a', 0, 'b c']

    Raises:
        ValueError: It is another expression.
    """
    if not isinstance(path, str) or not path.startswith("$"):
        raise ValueError(f"at: {abbreviate_value(path)} must begin with $: at: $.name[0]")
    steps: list[str | int] = []
    place = 1
    while place < len(path):
        found = _STEP.match(path, place)
        if found is None:
            raise ValueError(f"at: {path!r} is more than names and numbers: at: $.name[0]")
        index = found["index"]
        steps.append(int(index) if index is not None else found["name"] or found["key"])
        place = found.end()
    return steps


def find_in_json(data: Any, path: str) -> Any:
    """Find a value.

    Raises:
        LookupError: There is none.
    """
    for step in parse_json_path(path):
        try:
            data = data[step]
        except TypeError as error:  # a name in a list, or a number in an object
            raise LookupError(path) from error
    return data
