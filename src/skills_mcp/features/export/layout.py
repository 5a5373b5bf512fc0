"""Where packages lie in a folder, and what a host reads beside them.

Sources: https://code.claude.com/docs/en/plugin-marketplaces and the discovery of Agent
Skills, version 0.2.0, https://schemas.agentskills.io/discovery/0.2.0/schema.json
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
from skills_mcp.library.skill_folder import MAIN
from skills_mcp.skills.legal_names import derive_words

WELL_KNOWN = ".well-known/agent-skills"
INDEX = f"{WELL_KNOWN}/index.json"

_SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
_MARKETPLACE = ".claude-plugin/marketplace.json"
_PLUGIN = ".claude-plugin/plugin.json"
_COLLECTION = "organisation-skills"
_GENERAL = "general"  # for skills that lie in no folder
_DIGITS = 12
_PROGRAM = b"#!"

Files = Mapping[str, bytes]


class FolderLayout(Protocol):
    """A way to lay packages out; packages come one after the other."""

    def place(self, package: PackagedSkill) -> tuple[str, Files]:
        """Return the folder of a package, and its files in it."""

    def finish(self) -> Files:
        """Return what lies beside the packages, each file with its whole path."""


class PlainLayout:
    """Each package in a folder of its name, as hosts read it."""

    def place(self, package: PackagedSkill) -> tuple[str, Files]:
        """Return the folder of a package, and its files."""
        return package.name, package.files

    def finish(self) -> Files:
        """Return nothing: the folders are all."""
        return {}


class MarketplaceLayout:
    """Plugins of Claude Code, one for each folder at the top of the tree.

    The version of a plugin is made of its content, so that it is updated when, and only
    when, a skill of it has changed.
    """

    def __init__(self) -> None:
        self._plugins: dict[str, list[PackagedSkill]] = defaultdict(list)

    def place(self, package: PackagedSkill) -> tuple[str, Files]:
        """Return the folder of a package in its plugin, and its files."""
        top, slash, _ = package.path.partition("/")
        plugin = (derive_words(top) if slash else "") or _GENERAL
        self._plugins[plugin].append(package)
        return f"plugins/{plugin}/skills/{package.name}", package.files

    def finish(self) -> Files:
        """Return the files of the plugins, and the list of them."""
        files, listed = {}, []
        for name, packages in sorted(self._plugins.items()):
            about = {
                "name": name,
                "description": f"{len(packages)} skills of {name}",
                "version": _derive_version(packages),
            }
            files[f"plugins/{name}/{_PLUGIN}"] = _render(about)
            listed.append({**about, "source": f"./plugins/{name}"})
        head = {
            "name": _COLLECTION,
            "description": "The skills of this organisation",
            "owner": {"name": _COLLECTION},
        }
        files[_MARKETPLACE] = _render({**head, "plugins": listed})
        return files


@dataclass(frozen=True, slots=True)
class WellKnownSkill:
    """A skill that a web server offers: one file, and its entry in the index."""

    file: str
    data: bytes = field(repr=False)
    entry: str
    """As JSON, where it stands in the index."""


class WellKnownLayout:
    """The index that a web server offers; a package of several files is an archive."""

    def __init__(self) -> None:
        self._entries: list[str] = []

    def place(self, package: PackagedSkill) -> tuple[str, Files]:
        """Return the folder of a package, and the one file that is fetched."""
        skill = lay_out_well_known(package)
        self._entries.append(skill.entry)
        return f"{WELL_KNOWN}/{package.name}", {skill.file: skill.data}

    def finish(self) -> Files:
        """Return the index."""
        return {INDEX: render_well_known(self._entries)}


def lay_out_well_known(package: PackagedSkill) -> WellKnownSkill:
    """Return a package as a web server offers it."""
    is_single = set(package.files) == {MAIN}
    file = MAIN if is_single else f"{package.name}.tar.gz"
    data = package.files[MAIN] if is_single else _pack(package.files)
    entry = {
        "name": package.name,
        "type": "skill-md" if is_single else "archive",
        "description": package.description,
        "url": f"/{WELL_KNOWN}/{package.name}/{file}",
        "digest": f"sha256:{sha256(data).hexdigest()}",
    }
    text = json.dumps(entry, indent=2, ensure_ascii=False)
    return WellKnownSkill(file, data, text.replace("\n", "\n    "))


def render_well_known(entries: Sequence[str]) -> bytes:
    """Return the index of these skills."""
    listed = ",".join(f"\n    {each}" for each in entries)
    end = "\n  " if entries else ""
    head = f'"$schema": {json.dumps(_SCHEMA)},\n  "skills": '
    return f"{{\n  {head}[{listed}{end}]\n}}\n".encode()


def choose_layout(name: str) -> FolderLayout:
    """Return the layout of a format, for one export."""
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
            digest.update(
                f"{package.name}/{file}\0{sha256(data).hexdigest()}\0".encode()
            )
    return f"0.0.0-{digest.hexdigest()[:_DIGITS]}"


def _pack(files: Files) -> bytes:
    """Return an archive with the same bytes for the same files."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for file, data in sorted(files.items()):
            entry = tarfile.TarInfo(file)
            entry.size = len(data)
            entry.mode = 0o755 if data.startswith(_PROGRAM) else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def _render(value: object) -> bytes:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return f"{text}\n".encode()
