"""The project that an agent works on: which versions of packages it uses.

Rule: only files of the project's folder and of those above, up to the repository's, are
read; no link is followed. A file is read again when its stamp changes. Nothing is run,
resolved or looked up, and no file can raise, recurse or expand: a lock file is scanned
line by line where a parser in Python would take seconds.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from skills_mcp.errors import InvalidArgumentsError, MissingFileError
from skills_mcp.files.opening import open_inside
from skills_mcp.skills.model import Applicability, Skill
from skills_mcp.skills.version_range import (
    ECOSYSTEMS,
    MAX_RANGE_CHARACTERS,
    parse_range,
    parse_release,
)

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

MAX_LOCK_FILE_BYTES = 8 * 1024 * 1024
"""Of a lock file: twice the largest of public repositories that were looked at."""

MAX_MANIFEST_BYTES = 512 * 1024
"""Of what people write, which is read by slower parsers."""

_MAX_PACKAGES = 50_000
_MAX_NAME_CHARACTERS = 200
_MAX_VERSION_CHARACTERS = 64

# A `SyntaxError` is that of XML; the others are of data with another shape.
_UNREADABLE = (ValueError, RecursionError, SyntaxError, AttributeError, TypeError, KeyError)

Found = tuple[Any, Any]
"""Name and version or range, of any type that a file has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFile:
    """The packages that one file names."""

    name: str
    """Of the file."""
    ecosystem: str
    is_lock: bool
    """Whether it names versions, and no ranges."""
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Versions or ranges, by normalised name."""


class PackageFormat(NamedTuple):
    ecosystem: str
    read: Callable[[str], Iterable[Found]]
    is_lock: bool
    max_bytes: int = MAX_MANIFEST_BYTES


def parse_package_file(name: str, raw: bytes) -> PackageFile | None:
    """Parse a file by its name; None if nothing in it can be read.

    A package that cannot be read is left out.
    """
    known = find_format(name)
    if known is None or len(raw) > known.max_bytes:
        return None
    try:
        found = [*islice(known.read(raw.decode("utf-8-sig")), _MAX_PACKAGES)]
    except _UNREADABLE:
        return None
    versions: dict[str, dict[str, None]] = {}
    for package, written in found:
        if isinstance(package, str) and isinstance(written, str) and _is_version(known, written):
            named = normalize_package(known.ecosystem, package[:_MAX_NAME_CHARACTERS])
            versions.setdefault(named, {})[" ".join(written.split())] = None
    grouped = {package: tuple(each) for package, each in versions.items()}
    ecosystem, is_lock = known.ecosystem, known.is_lock
    return PackageFile(name=name, ecosystem=ecosystem, is_lock=is_lock, versions=grouped)


def find_format(name: str) -> PackageFormat | None:
    if name.endswith((".csproj", ".fsproj", ".vbproj")):
        return FORMATS["Directory.Packages.props"]
    if name.startswith("requirements") and name.endswith(".txt"):
        return FORMATS["requirements.txt"]
    return FORMATS.get(name)


def normalize_package(ecosystem: str, name: str) -> str:
    """Normalise a name as its registry compares names.

    >>> normalize_package("pypi", "Typing_Extensions"), normalize_package("npm", "React")
    ('typing-extensions', 'React')
    """
    if ecosystem == "pypi":
        return re.sub(r"[-_.]+", "-", name).lower()
    if ecosystem == "cargo":
        return name.replace("_", "-")
    return name.lower() if ecosystem in {"nuget", "composer"} else name


def _is_version(known: PackageFormat, written: str) -> bool:
    """Whether it is short, and in a lock file a version."""
    if known.is_lock:
        return len(written) <= _MAX_VERSION_CHARACTERS and parse_release(written) is not None
    return len(written) <= MAX_RANGE_CHARACTERS  # parsed when it is compared


# npm


def _read_package_lock(text: str) -> Iterator[Found]:
    """Read `package-lock.json`: packages at the top of a `node_modules`."""
    data = json.loads(text)
    for place, entry in data.get("packages", {}).items():
        if place.count("node_modules/") == 1 and not entry.get("link"):
            yield entry.get("name", place.rpartition("node_modules/")[2]), entry.get("version")
    if "packages" not in data:
        yield from ((name, entry["version"]) for name, entry in data["dependencies"].items())


_PNPM = re.compile(
    r"^  ['\"]?/?((?:@[\w.~-]{1,200}/)?[\w.~-]{1,200})[@/](\d[^(_'\":\s]{0,99})", re.MULTILINE
)


def _read_pnpm_lock(text: str) -> Iterator[Found]:
    packages = f"\n{text}".partition("\npackages:")[2].partition("\nsnapshots:")[0]
    return ((found[1], found[2]) for found in _PNPM.finditer(packages))


_YARN_NAME = re.compile(r"\"?((?:@[\w.~-]{1,200}/)?[\w.~-]{1,200})@")
_YARN_VERSION = re.compile(r"  version:? \"?([^\"\s]{1,100})")


def _read_yarn_lock(text: str) -> Iterator[Found]:
    """Read `yarn.lock`, of the first Yarn and of later ones."""
    name = ""
    for line in text.splitlines():
        if line and not line[0].isspace():
            found = _YARN_NAME.match(line)
            name = found[1] if found else ""
        elif name and (version := _YARN_VERSION.match(line)):
            if "-use.local" not in version[1]:  # a part of the project itself
                yield name, version[1]
            name = ""


def _read_package_json(text: str) -> Iterator[Found]:
    data = json.loads(text)
    for key in ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies"):
        yield from data.get(key, {}).items()


# Python, Rust, Go, PHP

_LOCKED = re.compile(
    r"^\[\[packages?\]\]\s*$\n(?:^(?!\[|name ?=).*$\n){0,20}?^name ?= ?\"([^\"\n]{1,200})\"\s*$\n"
    r"(?:^(?!\[|version ?=).*$\n){0,20}?^version ?= ?\"([^\"\n]{1,100})\"",
    re.MULTILINE,
)


def _read_toml_lock(text: str) -> Iterator[Found]:
    """Read `uv.lock`, `poetry.lock`, `pylock.toml` or `Cargo.lock`."""
    return ((found[1], found[2]) for found in _LOCKED.finditer(text.replace("\r\n", "\n")))


_REQUIREMENT = re.compile(
    r"\s{0,9}([A-Za-z0-9][\w.-]{0,199})\s{0,9}(?:\[[^\]\n]{0,200}\])?\s{0,9}\(?"
    r"([<>=!~][^;#\n)\\]{0,200})"
)


def _read_requirements(text: str) -> Iterator[Found]:
    found = map(_REQUIREMENT.match, text.splitlines())
    return ((each[1], each[2].partition(" --")[0]) for each in found if each)


def _read_toml(text: str) -> dict[str, Any]:
    import tomllib  # late: start-up

    return tomllib.loads(text)


def _read_pyproject(text: str) -> Iterator[Found]:
    data = _read_toml(text)
    project, poetry = data.get("project", {}), data.get("tool", {}).get("poetry", {})
    optional = (*project.get("optional-dependencies", {}).values(),)
    groups = (*optional, *data.get("dependency-groups", {}).values())
    listed = (line for group in (project.get("dependencies", []), *groups) for line in group)
    yield from _read_requirements("\n".join(line for line in listed if isinstance(line, str)))
    for table in (poetry, *poetry.get("group", {}).values()):
        yield from _read_table(table.get("dependencies", {}))


def _read_cargo_toml(text: str) -> Iterator[Found]:
    data = _read_toml(text)
    tables = [data, data.get("workspace", {})]
    for key in ("dependencies", "dev-dependencies", "build-dependencies"):
        for table in tables:
            yield from _read_table(table.get(key, {}))


def _read_table(dependencies: Mapping[str, Any]) -> Iterator[Found]:
    for name, entry in dependencies.items():
        wanted = entry.get("version", "") if isinstance(entry, dict) else entry
        yield entry.get("package", name) if isinstance(entry, dict) else name, wanted


_GO_LINE = re.compile(r"\s{0,9}(?:require\s{1,9})?([\w./~-]{1,200})\s{1,9}v(\d\S{0,99})")
_GO_REPLACED = re.compile(
    r"\s{0,9}(?:replace\s{1,9})?([\w./~-]{1,200})(?:\s{1,9}v\S{1,99})?\s{1,9}=>"
    r"\s{1,9}\S{1,200}(?:\s{1,9}v(\d\S{0,99}))?"
)


def _read_go_mod(text: str) -> Iterator[Found]:
    """Read `go.mod`, whose requirements are the versions that Go has selected."""
    block, required, replaced = "", {}, {}
    for line in text.splitlines():
        words = line.split()
        if line.rstrip().endswith("("):
            block = words[0]
        elif words[:1] == [")"]:
            block = ""
        elif found := _GO_REPLACED.match(line):
            replaced[found[1]] = found[2] or ""  # empty for a folder
        elif (block or (words or [""])[0]) == "require" and (found := _GO_LINE.match(line)):
            required[found[1]] = found[2]
    yield from (required | {name: v for name, v in replaced.items() if name in required}).items()


def _read_composer_lock(text: str) -> Iterator[Found]:
    data = json.loads(text)
    for entry in (*data.get("packages", []), *data.get("packages-dev", [])):
        yield entry["name"], entry["version"]


# Java and .NET


def _read_xml(text: str) -> "Element":
    """Read XML without a DTD, which could expand to gigabytes, or read other files."""
    from xml.etree import ElementTree as ET  # late: few projects have one

    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("it has a DTD")
    root = ET.fromstring(text)  # noqa: S314 - as above
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


_PROPERTY = re.compile(r"\$\{([\w.-]{1,100})\}")


def _read_pom(text: str) -> Iterator[Found]:
    root = _read_xml(text)
    properties = {each.tag: (each.text or "").strip() for each in root.iterfind("properties/*")}
    for entry in (*root.iterfind("parent"), *root.iter("dependency")):
        parts = [(entry.findtext(key) or "").strip() for key in ("groupId", "artifactId")]
        wanted = (entry.findtext("version") or "").strip()
        wanted = _PROPERTY.sub(lambda found: properties.get(found[1], ""), wanted)
        yield "/".join(parts), _pin(wanted)


def _read_dotnet_project(text: str) -> Iterator[Found]:
    for entry in _read_xml(text).iter():
        if entry.tag in {"PackageReference", "PackageVersion"}:
            name = entry.get("Include") or entry.get("Update") or ""
            wanted = entry.get("VersionOverride") or entry.get("Version")
            yield name, _pin((wanted or entry.findtext("Version") or "").strip())


def _pin(wanted: str) -> str:
    """A version without brackets is the one that is resolved, unless another part asks more."""
    return f"={wanted}" if wanted[:1].isdigit() and "*" not in wanted else wanted


def _read_nuget_lock(text: str) -> Iterator[Found]:
    for framework in json.loads(text)["dependencies"].values():
        yield from ((name, entry.get("resolved")) for name, entry in framework.items())


FORMATS: Mapping[str, PackageFormat] = {
    **{
        name: PackageFormat(ecosystem, read, is_lock=True, max_bytes=MAX_LOCK_FILE_BYTES)
        for name, ecosystem, read in (
            ("package-lock.json", "npm", _read_package_lock),
            ("npm-shrinkwrap.json", "npm", _read_package_lock),
            ("pnpm-lock.yaml", "npm", _read_pnpm_lock),
            ("yarn.lock", "npm", _read_yarn_lock),
            ("uv.lock", "pypi", _read_toml_lock),
            ("poetry.lock", "pypi", _read_toml_lock),
            ("pylock.toml", "pypi", _read_toml_lock),
            ("Cargo.lock", "cargo", _read_toml_lock),
            ("composer.lock", "composer", _read_composer_lock),
            ("packages.lock.json", "nuget", _read_nuget_lock),
        )
    },
    "go.mod": PackageFormat("golang", _read_go_mod, is_lock=True),
    **{
        name: PackageFormat(ecosystem, read, is_lock=False)
        for name, ecosystem, read in (
            ("package.json", "npm", _read_package_json),
            ("requirements.txt", "pypi", _read_requirements),
            ("pyproject.toml", "pypi", _read_pyproject),
            ("Cargo.toml", "cargo", _read_cargo_toml),
            ("pom.xml", "maven", _read_pom),
            ("Directory.Packages.props", "nuget", _read_dotnet_project),
        )
    },
}
"""By the name of the file; of several in one folder, the first that names a package counts."""


MAX_HEADER_CHARACTERS = 4096

_MAX_DEPTH = 12  # of a folder in its repository
_MAX_ENTRIES = 2_000  # of one folder
_MAX_FILES = 40
_MAX_NAMED = 3  # versions, and packages of one reply

_STATED = re.compile(
    rf"(?:({'|'.join(ECOSYSTEMS)}):)?(@?[\w./:+~-]{{1,200}})@v?(\d[\w.+-]{{0,63}})"
)

_Stamp = tuple[int, int, int]

_Read = Callable[[], Sequence[PackageFile]]


class Comparison(NamedTuple):
    """A package of a project, compared with the versions that a skill is written for."""

    fits: bool
    line: str
    """One sentence for a reply; empty if it fits."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project in a folder, or as a caller states it."""

    folder: Path | None = None
    stated: Sequence[PackageFile] = ()
    _parsed: dict[Path, tuple[_Stamp, PackageFile | None]] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def is_found(self) -> bool:
        """Whether there is any file that is read.  Blocking, but cheap."""
        return bool(self.stated) or (
            self.folder is not None and next(_find_files(self.folder), None) is not None
        )

    def read_files(self) -> list[PackageFile]:
        """Read its changed files again; the nearest and best come first.  Blocking."""
        if self.folder is None:
            return [*self.stated]
        paths = islice(_find_files(self.folder), _MAX_FILES)
        return [file for path in paths if (file := self._read(path))]

    def compare(self, skills: Iterable[Skill], read: _Read | None = None) -> list[Comparison]:
        """Compare it with what skills are written for, each package once.

        A package that the project does not name says nothing. `read` stands for `read_files`.
        """
        wanted = dict.fromkeys(each for skill in skills for each in skill.applies_to)
        files = (read or self.read_files)() if wanted else []
        compared = (_compare(each, files) for each in wanted)
        return [comparison for comparison in compared if comparison]

    def describe_misfits(self, skills: Iterable[Skill]) -> str:
        """The line for a reply; empty if nothing disagrees."""
        lines = dict.fromkeys(each.line for each in self.compare(skills) if not each.fits)
        return " ".join([*lines][:_MAX_NAMED])

    def _read(self, path: Path) -> PackageFile | None:
        try:
            found = path.lstat()
        except OSError:
            return None
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        known = self._parsed.get(path)
        if known is None or known[0] != stamp:
            known = self._parsed[path] = (stamp, _parse(path))
        return known[1]


@lru_cache(maxsize=32)
def open_project(folder: Path) -> Project:
    """Open a project once for all windows and prompts; nothing is read yet."""
    return Project(folder)


def parse_stated_project(header: str) -> Project | None:
    """Parse the packages that a caller states over HTTP; None for an empty header.

    Raises:
        InvalidArgumentsError: It is too long, or an entry is no NAME@VERSION.
    """
    if not header.strip():
        return None
    entries = [entry.strip() for entry in header.split(",") if entry.strip()]
    found = [_STATED.fullmatch(entry) for entry in entries]
    if len(header) > MAX_HEADER_CHARACTERS or not all(found):
        raise InvalidArgumentsError(
            "X-Skills-Project: write packages as NAME@VERSION, such as react@19.1 or "
            f"pypi:django@5.2, with commas in between, in at most {MAX_HEADER_CHARACTERS:,} "
            "characters."
        )
    return Project(stated=[file for each in found if each for file in _state(*each.groups())])


def _state(ecosystem: str | None, name: str, version: str) -> Iterator[PackageFile]:
    """Without a type, the caller means that of any ecosystem."""
    for each in [ecosystem] if ecosystem else ECOSYSTEMS:
        named = normalize_package(each, name.replace(":", "/"))
        stated = {named: (f"={version}",)}
        yield PackageFile(name="", ecosystem=each, is_lock=False, versions=stated)


def _find_files(folder: Path) -> Iterator[Path]:
    for each in _find_folders(folder):
        names: list[str] = []
        with suppress(OSError), os.scandir(each) as entries:
            names = [entry.name for entry in islice(entries, _MAX_ENTRIES)]
        known = sorted(name for name in names if find_format(name))
        yield from (each / name for name in sorted(known, key=_rank))


def _rank(name: str) -> int:
    return [*FORMATS].index(name) if name in FORMATS else len(FORMATS)


def _find_folders(folder: Path) -> Sequence[Path]:
    """The folder, and those above it in its repository."""
    above = [folder, *folder.parents][:_MAX_DEPTH]
    for depth, each in enumerate(above):
        if os.path.lexists(each / ".git"):
            return above[: depth + 1]
    return [folder]


def _parse(path: Path) -> PackageFile | None:
    try:
        with open_inside(path.parent, [path.name]) as file:
            return parse_package_file(path.name, file.read(MAX_LOCK_FILE_BYTES + 1))
    except (MissingFileError, OSError):
        return None


def _compare(wanted: Applicability, files: Sequence[PackageFile]) -> Comparison | None:
    """Compare one package; None if the project names it in no ecosystem."""
    names = [wanted.ecosystem] if wanted.ecosystem else ECOSYSTEMS
    found = [each for name in names if (each := _compare_in(name, wanted, files))]
    return next((each for each in found if each.fits), found[0] if found else None)


def _compare_in(
    ecosystem: str, wanted: Applicability, files: Sequence[PackageFile]
) -> Comparison | None:
    """Compare versions with those of the nearest lock file, or ranges of a manifest."""
    name = normalize_package(ecosystem, wanted.package)
    named = [file for file in files if file.ecosystem == ecosystem and name in file.versions]
    if not named:
        return None
    allowed = parse_range(wanted.versions, ecosystem) if wanted.versions else None
    manifest = next((file for file in named if not file.is_lock), None)
    texts = manifest.versions[name] if manifest else ()
    declared = [each for text in texts if (each := parse_range(text, ecosystem))]
    file = next((file for file in named if file.is_lock), named[0])
    versions = file.versions[name] if file.is_lock else [each.text for each in declared]
    if not versions:
        return None  # such as `latest`, or an address
    if allowed is None:
        fits = True
    elif file.is_lock:
        # Of several versions, the others are those of packages of packages.
        direct = [v for v in versions if any(each.contains(v) for each in declared)]
        versions = (*direct,) or versions
        fits = any(map(allowed.contains, versions))
    else:
        fits = any(map(allowed.overlaps, declared))
    return Comparison(fits, "" if fits else _describe(wanted, versions, file.name))


def _describe(wanted: Applicability, versions: Sequence[str], file: str) -> str:
    listed = " and ".join(version.lstrip("= ") for version in versions[:_MAX_NAMED])
    where = f" ({file})" if file else ""
    return f"Written for {wanted}; this project has {listed}{where}."
