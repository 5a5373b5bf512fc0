"""Skills as packages, the layouts of an export, and its lock.

Sources: the Agent Skills standard, and
https://code.claude.com/docs/en/plugin-marketplaces and the discovery of Agent
Skills, version 0.2.0, https://schemas.agentskills.io/discovery/0.2.0/schema.json

Rule: a lock is reproducible. Equal commit and settings give equal bytes, on every
machine.
"""

import gzip
import io
import json
import tarfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol

from skills_mcp.features.export.packaged_skill import PackagedSkill
from skills_mcp.library.skill_folder import SKILL_FILE
from skills_mcp.skills.legal_names import hyphenate

WELL_KNOWN_FOLDER = ".well-known/agent-skills"
WELL_KNOWN_INDEX = f"{WELL_KNOWN_FOLDER}/index.json"

_SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
_MARKETPLACE = ".claude-plugin/marketplace.json"
_PLUGIN = ".claude-plugin/plugin.json"
_COLLECTION = "organisation-skills"
_GENERAL = "general"  # for skills that lie in no folder
_DIGITS = 12
_EXECUTABLE_START = b"#!"

Files = Mapping[str, bytes]


class FolderLayout(Protocol):
    """Layout strategy; receives one package at a time."""

    def add_package(self, package: PackagedSkill) -> tuple[str, Files]:
        """Folder of a package, and its files."""

    def finish(self) -> Files:
        """Index files, with paths relative to the export."""


class PlainLayout:
    """One folder per package, as read by hosts."""

    def add_package(self, package: PackagedSkill) -> tuple[str, Files]:
        return package.name, package.files

    def finish(self) -> Files:
        return {}


class MarketplaceLayout:
    """Claude Code plugins, one per top folder of the tree.

    A plugin's version is a content hash, so it is updated if and only if a skill
    changes.
    """

    def __init__(self) -> None:
        self._plugins: dict[str, list[PackagedSkill]] = defaultdict(list)

    def add_package(self, package: PackagedSkill) -> tuple[str, Files]:
        top, slash, _ = package.path.partition("/")
        plugin = (hyphenate(top) if slash else "") or _GENERAL
        self._plugins[plugin].append(package)
        return f"plugins/{plugin}/skills/{package.name}", package.files

    def finish(self) -> Files:
        files, listed = {}, []
        for name, packages in sorted(self._plugins.items()):
            about = {
                "name": name,
                "description": f"{len(packages)} skills of {name}",
                "version": _derive_version(packages),
            }
            files[f"plugins/{name}/{_PLUGIN}"] = _render_json(about)
            listed.append({**about, "source": f"./plugins/{name}"})
        head = {
            "name": _COLLECTION,
            "description": "The skills of this organisation",
            "owner": {"name": _COLLECTION},
        }
        files[_MARKETPLACE] = _render_json({**head, "plugins": listed})
        return files


@dataclass(frozen=True, slots=True)
class WellKnownSkill:
    file: str
    data: bytes = field(repr=False)
    entry: str


class WellKnownLayout:
    """Well-known index; multi-file packages become archives."""

    def __init__(self) -> None:
        self._entries: list[str] = []

    def add_package(self, package: PackagedSkill) -> tuple[str, Files]:
        skill = build_well_known_skill(package)
        self._entries.append(skill.entry)
        return f"{WELL_KNOWN_FOLDER}/{package.name}", {skill.file: skill.data}

    def finish(self) -> Files:
        return {WELL_KNOWN_INDEX: render_well_known(self._entries)}


def build_well_known_skill(package: PackagedSkill) -> WellKnownSkill:
    is_single = set(package.files) == {SKILL_FILE}
    file = SKILL_FILE if is_single else f"{package.name}.tar.gz"
    data = package.files[SKILL_FILE] if is_single else _build_archive(package.files)
    entry = {
        "name": package.name,
        "type": "skill-md" if is_single else "archive",
        "description": package.description,
        "url": f"/{WELL_KNOWN_FOLDER}/{package.name}/{file}",
        "digest": f"sha256:{sha256(data).hexdigest()}",
    }
    text = json.dumps(entry, indent=2, ensure_ascii=False)
    return WellKnownSkill(file, data, text.replace("\n", "\n    "))


def render_well_known(entries: Sequence[str]) -> bytes:
    listed = ",".join(f"\n    {entry}" for entry in entries)
    end = "\n  " if entries else ""
    head = f'"$schema": {json.dumps(_SCHEMA)},\n  "skills": '
    return f"{{\n  {head}[{listed}{end}]\n}}\n".encode()


def choose_layout(name: str) -> FolderLayout:
    match name:
        case "marketplace":
            return MarketplaceLayout()
        case "well-known":
            return WellKnownLayout()
        case _:
            return PlainLayout()


def _derive_version(packages: list[PackagedSkill]) -> str:
    digest = sha256()
    for package in packages:
        for file, data in sorted(package.files.items()):
            digest.update(f"{package.name}/{file}\0{sha256(data).hexdigest()}\0".encode())
    return f"0.0.0-{digest.hexdigest()[:_DIGITS]}"


def _build_archive(files: Files) -> bytes:
    """Build a reproducible tar.gz archive."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for file, data in sorted(files.items()):
            entry = tarfile.TarInfo(file)
            entry.size = len(data)
            entry.mode = 0o755 if data.startswith(_EXECUTABLE_START) else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def _render_json(value: object) -> bytes:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return f"{text}\n".encode()
