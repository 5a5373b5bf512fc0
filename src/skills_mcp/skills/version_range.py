"""Ranges of versions, as each ecosystem writes them.

A pre-release counts as its release, so rules for `>=19` serve a project with 19.0.0-rc.1.
A skill states its packages with `applies_to`, see docs/reference/freshness.md.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from skills_mcp.skills.document import EMPTY_SCALARS
from skills_mcp.skills.model import Applicability, ProblemList
from skills_mcp.text.rendering import abbreviate_value

MAX_RANGE_CHARACTERS = 200
"""Longer than any range that a person writes; a file of a project may be hostile."""

_RELEASE = re.compile(r"[v=]{0,2}\s{0,9}(?:\d{1,9}!)?(\d{1,9}(?:\.\d{1,9}){0,5})(?![\d.]*\d)")
_NUMBERS = re.compile(r"\d{1,9}(?:\.\d{1,9}){0,5}")
_OPERATOR_SPACE = re.compile(r"([<>=^~!])\s+")
_V_PREFIX = re.compile(r"(?<![\w.])v(?=\d)")
_INTERVAL = re.compile(r"([\[(])\s*([^,\[\]()]*)(?:(,)\s*([^,\[\]()]*))?([\])])")
_BARE_CARGO = re.compile(r"(?:^|(?<=[\s,]))(?=\d+(?:\.\d+)*(?:-[\w.]+)?(?:$|[\s,]))")
_PINNED = re.compile(r"={1,2}\s?\d[\w.+-]{0,63}")
_COMPONENTS = 3


@dataclass(frozen=True, slots=True)
class VersionRange:
    text: str
    has_release: Callable[[str], bool] = field(repr=False)
    """Whether a release, such as 1.2.0, is in it."""

    def contains(self, version: str) -> bool:
        """Whether a version is in it; without a number, none is."""
        release = parse_release(version)
        return release is not None and self.has_release(release)

    def overlaps(self, other: "VersionRange") -> bool:
        """Whether any version is in both.

        If so, the higher of both lower bounds is, or one next to it.
        """
        numbers = {*_NUMBERS.findall(self.text), *_NUMBERS.findall(other.text)}
        releases = ("0.0.0", *(near for number in numbers for near in _iterate_near(number)))
        return any(self.has_release(each) and other.has_release(each) for each in releases)


def parse_release(version: str) -> str | None:
    """Parse the numbers at the beginning of a version; None without any.

    >>> parse_release("v1.2"), parse_release("33.0.0-jre"), parse_release("latest")
    ('1.2.0', '33.0.0', None)
    """
    found = _RELEASE.match(version.strip())
    return _pad(found[1]) if found else None


def parse_range(text: str, ecosystem: str = "") -> VersionRange | None:
    """Parse a range in the notation of an ecosystem; None if it is none.

    The notations of npm and of PEP 440 are taken in each ecosystem.

    >>> [parse_range(">=18,<19").contains(version) for version in ("18.3.1", "19.0.0")]
    [True, False]
    """
    text = " ".join(text.split())
    if not text or len(text) > MAX_RANGE_CHARACTERS or "===" in text:
        return None
    parsers = (_parse_npm, _parse_pep440, _parse_pinned)
    for parse in (_parse_pep440, *parsers) if ecosystem == "pypi" else parsers:
        try:
            return VersionRange(text, parse(text, ecosystem))
        except ValueError:  # of both libraries
            continue
    return None


def _parse_npm(text: str, ecosystem: str) -> Callable[[str], bool]:
    from semantic_version import NpmSpec, Version  # late: few skills have a range

    if ecosystem == "cargo":
        text = _BARE_CARGO.sub("^", text)
    text = _translate_intervals(text)
    text = _OPERATOR_SPACE.sub(r"\1", _V_PREFIX.sub("", text)).replace("==", "=")
    choices = (" ".join(choice.replace(",", " ").split()) for choice in text.split("||"))
    spec: Any = NpmSpec("||".join(choices))
    return lambda release: bool(spec.match(Version.coerce(release)))


def _parse_pep440(text: str, _: str) -> Callable[[str], bool]:
    from packaging.specifiers import SpecifierSet  # late: few skills have a range

    spec = SpecifierSet(text)
    return lambda release: spec.contains(release, prereleases=True)


def _parse_pinned(text: str, _: str) -> Callable[[str], bool]:
    """Parse a version that neither library knows, such as Maven's `=5.3.31.RELEASE`."""
    pinned = parse_release(text) if _PINNED.fullmatch(text) else None
    if pinned is None:
        raise ValueError(text)
    return lambda release: release == pinned


def _translate_intervals(text: str) -> str:
    """Translate the intervals of Maven and NuGet.

    >>> _translate_intervals("[1.0,2.0),[3.0]")
    '>=1.0 <2.0||=3.0'
    """
    if text[0] not in "[(":
        return text
    intervals = _INTERVAL.findall(text)
    if not intervals or _INTERVAL.sub("", text).strip(", "):
        raise ValueError(text)
    return "||".join(_translate_interval(*interval) for interval in intervals)


def _translate_interval(opening: str, low: str, comma: str, high: str, closing: str) -> str:
    if not comma:
        return f"={low.strip()}"
    lower = f"{'>=' if opening == '[' else '>'}{low.strip()}" if low.strip() else ""
    upper = f"{'<=' if closing == ']' else '<'}{high.strip()}" if high.strip() else ""
    return f"{lower} {upper}".strip() or "*"


def _pad(numbers: str) -> str:
    parts = [str(int(part)) for part in numbers.split(".")]
    return ".".join(parts + ["0"] * (_COMPONENTS - len(parts)))


def _iterate_near(numbers: str) -> Iterator[str]:
    """A version, and the next patch, minor and major ones."""
    release = _pad(numbers)
    major, minor, patch = map(int, release.split(".")[:_COMPONENTS])
    yield from (release, f"{major}.{minor}.{patch + 1}", f"{major}.{minor + 1}.0")
    yield f"{major + 1}.0.0"


APPLIES_TO = "applies_to"

ECOSYSTEMS = ("npm", "pypi", "golang", "maven", "cargo", "nuget", "composer")
"""Types of package URLs (purl)."""

_MAX_ENTRIES = 20  # a skill is about few packages

_PACKAGE = re.compile(rf"(?:({'|'.join(ECOSYSTEMS)}):)?(@?[\w.+~-][\w./:+~-]{{0,199}})")
_HINT = 'write: applies_to: [{package: npm:react, versions: ">=18,<19"}]'


def parse_applies_to(fields: Mapping[str, Any], report: ProblemList) -> tuple[Applicability, ...]:
    """Parse the packages and ranges; a wrong entry is reported and ignored.

    An entry is a mapping, or a text such as `npm:react >=18,<19`; the standard of
    packages allows nothing but texts in `metadata`, so one text has an entry on each line.
    """
    value = fields.get(APPLIES_TO)
    if value is None or (isinstance(value, str) and value.strip().casefold() in EMPTY_SCALARS):
        return ()
    entries = value.splitlines() if isinstance(value, str) else value
    entries = entries if isinstance(entries, list) else [entries]
    found: list[Applicability] = []
    for entry in entries[:_MAX_ENTRIES]:
        parsed = _parse_entry(entry)
        if parsed is None:
            reason = f"has {abbreviate_value(entry)} in {APPLIES_TO}, which is ignored"
            report.warn("applies-to", reason, _HINT, key=APPLIES_TO)
        else:
            found.append(parsed)
    if len(entries) > _MAX_ENTRIES:
        reason = f"has {len(entries):,} entries in {APPLIES_TO}; those after {_MAX_ENTRIES} are"
        report.warn("applies-to", f"{reason} ignored", _HINT, key=APPLIES_TO)
    return tuple(found)


def _parse_entry(entry: object) -> Applicability | None:
    if isinstance(entry, str):
        package, _, versions = entry.strip().removeprefix("- ").partition(" ")
    elif isinstance(entry, Mapping) and entry.keys() <= {"package", "versions"}:
        package, versions = entry.get("package", ""), entry.get("versions", "")
    else:
        return None
    named, versions = _PACKAGE.fullmatch(str(package).strip()), " ".join(str(versions).split())
    if not named or (versions and parse_range(versions, named[1] or "") is None):
        return None
    ecosystem, name = named[1] or "", named[2]
    if ":" in name and ecosystem != "maven":
        return None  # a type that is not known
    return Applicability(ecosystem, name.replace(":", "/"), versions)
