"""Build what a release publishes, and check it: `make release`.

It writes into `dist/`:

- the wheel and the source distribution,
- the MCP Bundle, and `server.json` for the MCP Registry,
- `sbom.json`, a CycloneDX list of what a fresh installation holds,
- `SHA256SUMS` of all of them.

The same commit gives the same bytes, but for the list, which names the newest versions
of the dependencies. Nothing is published here: `.github/workflows/release.yml` does.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from release.bundle import write_bundle
from release.metadata import VARIABLE, derive_registry_name, derive_urls
from release.registry_entry import compose_entry
from skills_mcp.about import __version__

ROOT = Path(__file__).resolve().parent.parent
_MCPB = "@anthropic-ai/mcpb@2"
_console = Console(stderr=True)

Made = TypeVar("Made")


class ReleaseError(Exception):
    """Something that would be published is not right; the message says what."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Build everything, and end with 1 if something is wrong."""
    options = _parse(arguments)
    try:
        build_release(options.to, options.repository, tag=options.tag)
    except ReleaseError as error:
        _console.print(f"[red]✗[/red] {error}", soft_wrap=True)
        sys.exit(1)


def build_release(
    folder: Path, repository: str = "", *, tag: str = "", with_list: bool = True
) -> None:
    """Build and check all files of a release.

    Args:
        folder: Where they go; what was in it is deleted.
        repository: The address of the repository; empty leaves its URLs out.
        tag: The tag of the release; it has to name this version.
        with_list: Whether to install the wheel and list what that brings.

    Raises:
        ReleaseError: One of them is not right, or a tool has failed.
    """
    if tag and tag != f"v{__version__}":
        raise ReleaseError(
            f"The tag {tag} is not v{__version__}. Set __version__ in "
            "src/skills_mcp/about.py, or correct the tag"
        )
    repository = repository.rstrip("/")
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    wheel = _step("Packages", lambda: _build_packages(folder, repository))
    bundle = _step("MCP Bundle", lambda: write_bundle(folder, wheel, derive_urls(repository)))
    _step("The bundle, as the tool of its format sees it", lambda: _check_bundle(bundle))
    if derive_registry_name(repository):
        _step("server.json", lambda: _write_entry(folder, repository, bundle))
    else:
        _console.print("- server.json is left out: name a repository on GitHub with --repository")
    if with_list:
        _step("sbom.json", lambda: _write_components(folder, wheel))
    _step("SHA256SUMS", lambda: _write_checksums(folder))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Build what a release publishes")
    parser.add_argument("--to", type=Path, default=ROOT / "dist", metavar="FOLDER")
    parser.add_argument(
        "--repository",
        default=os.environ.get(VARIABLE, ""),
        help="its address, such as https://github.com/acme/skills-mcp",
    )
    parser.add_argument("--tag", default="", help="it has to name this version")
    return parser.parse_args(arguments)


def _step(name: str, make: Callable[[], Made]) -> Made:
    made = make()
    _console.print(f"[green]✓[/green] {name}")
    return made


def _build_packages(folder: Path, repository: str) -> Path:
    """Build the source distribution, and the wheel from it; return the wheel."""
    environment = os.environ | {VARIABLE: repository, **_fixed_time()}
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT,
         env=environment)  # fmt: skip
    [wheel] = folder.glob("*.whl")
    return wheel


def _fixed_time() -> Mapping[str, str]:
    """Return the time of the commit, which all files of a package get."""
    words = ["git", "-C", os.fspath(ROOT), "log", "-1", "--format=%ct"]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    return {"SOURCE_DATE_EPOCH": found.stdout.strip()} if found.stdout.strip() else {}


def _check_bundle(bundle: Path) -> None:
    npx = shutil.which("npx")
    if npx is None:
        raise ReleaseError(
            "The bundle cannot be checked without npx. Install Node.js, which has it"
        )
    with tempfile.TemporaryDirectory() as unpacked:
        _run(npx, "--yes", _MCPB, "unpack", bundle, unpacked)
        _run(npx, "--yes", _MCPB, "validate", Path(unpacked) / "manifest.json")


def _write_entry(folder: Path, repository: str, bundle: Path) -> None:
    digest = hashlib.sha256(bundle.read_bytes()).hexdigest()
    file = folder / "server.json"
    text = json.dumps(compose_entry(repository, digest), indent=2)
    file.write_text(f"{text}\n", encoding="utf-8")
    # It knows the schemas of the registry, and the rules that are in none.
    with tempfile.TemporaryDirectory() as alone:
        shutil.copy(file, alone)
        _run(_tool("skillsaw"), "lint", "--no-color", alone)


def _write_components(folder: Path, wheel: Path) -> None:
    """List what a fresh installation of the wheel holds."""
    with tempfile.TemporaryDirectory() as made:
        venv.create(made, with_pip=True)
        python = Path(made) / ("Scripts" if os.name == "nt" else "bin") / "python"
        quiet = ("--quiet", "--disable-pip-version-check")
        _run(python, "-m", "pip", "install", *quiet, f"{wheel}[http,otel,postgres]")
        _run(python, "-m", "pip", "uninstall", *quiet, "--yes", "pip", "setuptools")
        _run(
            *(_tool("cyclonedx-py"), "environment", "--output-reproducible"),
            *("--pyproject", ROOT / "pyproject.toml", "--mc-type", "application"),
            *("--output-file", folder / "sbom.json", python),
        )


def _write_checksums(folder: Path) -> None:
    files = sorted(path for path in folder.iterdir() if path.is_file())
    rows = (f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.name}\n" for f in files)
    (folder / "SHA256SUMS").write_text("".join(rows), encoding="ascii")


def _tool(name: str) -> Path:
    """Return a program of the development environment."""
    return Path(sys.executable).with_name(name)


def _run(*words: str | Path, env: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(
        [os.fspath(word) for word in words],
        capture_output=True,
        text=True,
        check=False,
        env=env,
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip()
        name = " ".join(Path(word).name for word in words[:3])
        raise ReleaseError(f"{name} has failed:\n{said}")


if __name__ == "__main__":
    main()
