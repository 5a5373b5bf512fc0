"""The skills that the tests of every framework serve: a folder, and a repository.

Only the standard library: a recipe runs where `skills_mcp` is not installed.
"""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

ROOT_RULE = "Write British English."
UI_RULE = "Every element can be reached with the keyboard."
AUTH_RULE = "Guard each route with the hook useSession."
TEMPLATE_LINE = "export function LoginForm() {}"
REFERENCE_LINE = "List the fields with `pdftk dump_data_fields`."

SKILL_FILES: Mapping[str, str] = {
    "_root.md": f"""\
---
description: Rules for all work
keywords: [rules]
---

{ROOT_RULE}
""",
    "ui/_index.md": f"""\
---
description: Rules for user interfaces
keywords: [ui, interface]
---

{UI_RULE}
""",
    "ui/react/auth.md": f"""\
---
description: Add authentication to React components
keywords: [react, auth, login]
assets:
  - file: assets/login-form.tsx
    description: A form to begin with
---

{AUTH_RULE}
""",
    "ui/react/auth/assets/login-form.tsx": f"{TEMPLATE_LINE}\n",
    "pdf/SKILL.md": """\
---
name: pdf
description: Fill in PDF forms and extract their fields.
---

Read `references/forms.md` before you fill in a form.
""",
    "pdf/references/forms.md": f"""\
# Forms

{REFERENCE_LINE}
""",
}

_GIT_SETTINGS = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def write_skills(folder: Path, files: Mapping[str, str] = SKILL_FILES) -> Path:
    """Write a small tree of skills and return its folder."""
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


@dataclass(frozen=True, slots=True)
class GitSkills:
    """The same tree in a Git repository, into which changes can be merged."""

    bare: Path
    work: Path

    @classmethod
    def create(cls, folder: Path) -> Self:
        """Make the repository below a folder; its branch is main."""
        made = cls(folder / "skills.git", folder / "skills-work")
        made.bare.mkdir(parents=True)
        made.work.mkdir(parents=True)
        _git("init", "-q", "--bare", "--initial-branch=main", cwd=made.bare)
        _git("init", "-q", "--initial-branch=main", cwd=made.work)
        _git("remote", "add", "origin", str(made.bare), cwd=made.work)
        made.merge(SKILL_FILES)
        return made

    @property
    def url(self) -> str:
        """What `repo=` and `SKILLS_REPO_URL` take."""
        return f"file://{self.bare}"

    def merge(self, files: Mapping[str, str | None]) -> str:
        """Write files (None deletes one), commit and push; return the commit."""
        for name in [name for name, text in files.items() if text is None]:
            (self.work / name).unlink()
        write_skills(self.work, {k: v for k, v in files.items() if v is not None})
        _git("add", "--all", ".", cwd=self.work)
        _git("commit", "-q", "-m", "Change", cwd=self.work)
        _git("push", "-q", "origin", "HEAD", cwd=self.work)
        return _git("rev-parse", "HEAD", cwd=self.work)


def _git(*arguments: str, cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    done = subprocess.run(
        ["git", *arguments],
        cwd=cwd,
        env=environment | _GIT_SETTINGS,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()
