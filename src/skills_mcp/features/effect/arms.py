"""Arms of an experiment: the files of a skill for an agent."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, get_args

from skills_mcp.features.authoring.cases import EVALS
from skills_mcp.features.effect.evidence import DIGITS, digest_text
from skills_mcp.features.export.export_names import assign_names
from skills_mcp.features.export.layout import FolderFormat, LockedSettings, package_skill
from skills_mcp.features.export.package_links import ExportedLocations
from skills_mcp.library import Snapshot
from skills_mcp.library.skill_folder import SKILL_FILE, publish_skills, render_skill_file
from skills_mcp.skills.composition import compose_skill
from skills_mcp.skills.inheritance import compose
from skills_mcp.skills.model import Skill

ArmName = Literal["without", "with", "inherited", "before"]
ARM_NAMES: tuple[ArmName, ...] = get_args(ArmName)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """The files of a skill that an agent gets; none without it."""

    name: ArmName
    digest: str = ""
    """Digest of the composed text."""
    package: str = ""
    """Digest of all files."""
    folder: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def text(self) -> str:
        return self.files[SKILL_FILE].decode() if self.files else ""


def build_arm(name: ArmName, snapshot: Snapshot, skill: Skill, folder_format: FolderFormat) -> Arm:
    """Build an arm of one skill.  Blocking: reads its files.

    Its cases are left out: they say what a good result is.
    """
    if name == "without":
        return Arm(name=name)
    settings = LockedSettings(format=folder_format, raw=False, select=())
    published = publish_skills(snapshot)
    names = assign_names(published.names.published, {})
    locations = ExportedLocations(published.snapshot.index, names.get, lambda _: "")
    packaged = package_skill(published, skill.path, names[skill.path], settings, locations)
    files = {
        file: data
        for file, data in packaged.files.items()
        if not file.startswith(f"{EVALS}/") and (name != "inherited" or file not in skill.files)
    }
    text = compose_skill(snapshot.index, skill).instructions
    if name == "inherited":
        text = compose(snapshot.index.contributors(skill)[:-1])
        files[SKILL_FILE] = render_skill_file(skill, packaged.name, text).encode()
    hashes = {file: sha256(data).hexdigest() for file, data in sorted(files.items())}
    return Arm(
        name=name,
        digest=digest_text(skill, text),
        package=sha256(json.dumps(hashes).encode()).hexdigest()[:DIGITS],
        folder=packaged.name,
        files=files,
    )
