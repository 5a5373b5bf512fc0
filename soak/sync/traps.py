"""A project, a home and an environment that tell Git to run programs."""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from soak.stdio import home_variables
from tests.support import git, write


class Traps:
    """Programs that leave a canary, in every place where Git takes one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sprung = folder / "sprung"
        self._sprung.mkdir()
        self.count = 0
        self._home = home_variables(folder)
        self._project = folder / "project"
        self._set_project()
        self._set_home()
        self._environment = self._invent_environment()

    def sync(self, url: str, name: str) -> str:
        """Run our program there; return what is served, and what it says."""
        home = self._folder / f"ours-{name}"
        ours = {"SKILLS_MCP_HOME": str(home), "SKILLS_REPO": url}
        done = subprocess.run(
            [sys.executable, "-m", "skills_mcp", "sync", "--json"],
            cwd=self._project,
            env={**self._started_with(), **ours},
            capture_output=True,
            text=True,
            check=False,
        )
        files = (path for path in home.rglob("snap/*/skills/*") if path.is_file())
        return done.stdout + repr([path.read_bytes() for path in files])

    def clone(self, url: str) -> None:
        """Run Git itself there, which is known to fall for some of it."""
        environment = {**os.environ, **self._home}
        for number, address in enumerate((url, url.removeprefix("file://"))):
            subprocess.run(
                ["git", "clone", "-q", address, f"{self._folder}/clone-{number}"],
                cwd=self._project,
                env=environment,
                capture_output=True,
                check=False,
            )

    def read_sprung(self) -> set[str]:
        """Return the traps that went off, and set them again."""
        found = {path.name for path in self._sprung.iterdir()}
        for path in self._sprung.iterdir():
            path.unlink()
        return found

    def _started_with(self) -> Mapping[str, str]:
        return {**os.environ, **self._home, **self._environment}

    def _spring(self, name: str) -> str:
        self.count += 1
        return f"touch {shlex.quote(str(self._sprung / name))}"

    def _program(self, name: str) -> str:
        file = write(
            self._folder / "programs" / name, f"#!/bin/sh\n{self._spring(name)}"
        )
        file.chmod(0o755)
        return str(file)

    def _helper(self, name: str) -> str:
        """Return an address that Git hands to a program; a space is `% ` in it."""
        return f"ext::sh -c {self._spring(name).replace(' ', '% ')} "

    def _set_project(self) -> None:
        self._project.mkdir()
        git("init", "-q", cwd=self._project)
        hook = self._project / ".git/hooks/reference-transaction"
        write(hook, f"#!/bin/sh\n{self._spring('project-hook')}").chmod(0o755)
        self._configure(self._project / ".git/config", "project")

    def _set_home(self) -> None:
        home = Path(self._home["HOME"])
        self._configure(home / ".gitconfig", "home")
        for hook in ("reference-transaction", "post-checkout", "post-index-change"):
            file = home / "template/hooks" / hook
            write(file, f"#!/bin/sh\n{self._spring(f'template-{hook}')}").chmod(0o755)
        git("config", "--file", str(home / ".gitconfig"), "init.templateDir",
            str(home / "template"), cwd=home)  # fmt: skip

    def _configure(self, file: Path, whose: str) -> None:
        attributes = write(self._folder / "attributes", "* filter=trap")
        settings = {
            "core.fsmonitor": self._program(f"{whose}-fsmonitor"),
            "core.sshCommand": self._program(f"{whose}-ssh"),
            "core.askPass": self._program(f"{whose}-askpass"),
            "core.gitProxy": self._program(f"{whose}-proxy"),
            "core.alternateRefsCommand": self._program(f"{whose}-refs"),
            "core.pager": self._program(f"{whose}-pager"),
            "core.attributesFile": str(attributes),
            "filter.trap.smudge": self._spring(f"{whose}-smudge"),
            "filter.trap.clean": self._spring(f"{whose}-clean"),
            "filter.trap.process": self._program(f"{whose}-process"),
            "diff.trap.command": self._program(f"{whose}-diff"),
            "uploadpack.packObjectsHook": self._program(f"{whose}-pack-objects"),
            "gpg.program": self._program(f"{whose}-gpg"),
            "protocol.ext.allow": "always",
            f"url.{self._helper(f'{whose}-rewritten')}.insteadOf": "file://",
            "fetch.recurseSubmodules": "true",
            "remote.origin.uploadpack": self._program(f"{whose}-uploadpack"),
        }  # fmt: skip
        if whose == "project":  # of a user's, who has no token, they are wanted
            settings["credential.helper"] = f"!{self._spring('project-helper')}; true"
        for key, value in settings.items():
            git("config", "--file", str(file), key, value, cwd=self._folder)

    def _invent_environment(self) -> Mapping[str, str]:
        nowhere = str(self._folder / "nowhere")
        rewritten = f"url.{self._helper('variable-rewritten')}.insteadOf"
        return {
            **dict.fromkeys(("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR"), nowhere),
            **dict.fromkeys(("GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"), nowhere),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": nowhere,
            "GIT_NAMESPACE": "elsewhere",
            "GIT_TEMPLATE_DIR": str(Path(self._home["HOME"]) / "template"),
            "GIT_EXEC_PATH": nowhere,
            "GIT_CONFIG_PARAMETERS": "'protocol.ext.allow'='always'",
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "protocol.ext.allow",
            "GIT_CONFIG_VALUE_0": "always",
            "GIT_CONFIG_KEY_1": rewritten,
            "GIT_CONFIG_VALUE_1": "file://",
            "GIT_SSH_COMMAND": self._program("variable-ssh-command"),
            "GIT_SSH": self._program("variable-ssh"),
            "GIT_ASKPASS": self._program("variable-askpass"),
            "GIT_PROXY_COMMAND": self._program("variable-proxy"),
            "GIT_EXTERNAL_DIFF": self._program("variable-diff"),
            "GIT_PAGER": self._program("variable-pager"),
            "GIT_EDITOR": self._program("variable-editor"),
            "GIT_TRACE": str(self._sprung / "variable-trace"),
            "GIT_TRACE2": str(self._sprung / "variable-trace2"),
            "GIT_ALLOW_PROTOCOL": "ext",
        }
