"""Findings of other scanners, read as SARIF from a file or from a program."""

import json
import shlex
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal
from urllib.parse import unquote, urlparse

from skills_mcp.errors import ConfigError
from skills_mcp.features.authoring.validation import AuthoredSkill, PathFilter, SkillTree
from skills_mcp.skills.model import Problem, escape_unprintable
from skills_mcp.text.rendering import abbreviate_value

_COMMANDS: Mapping[str, str] = {
    "cisco": "skill-scanner scan-all --recursive --lenient --format sarif --output {output} {path}"
}
"""Scanners with a name of their own."""

_TIMEOUT_SECONDS = 1800.0  # a library of thousands takes Cisco's scanner half an hour
_MAX_BYTES = 256 * 1024 * 1024
_HINT = "see what the scanner says about it; it is not a finding of skills-mcp"


def run_scanner(scanner: str, folder: Path) -> Sequence[Problem]:
    """Run a scanner on a folder, or read its SARIF file.

    Args:
        scanner: `cisco`, the path of a SARIF file, or a command that prints SARIF; in a
            command `{path}` is the folder, without it the folder is the last word.
        folder: The root of the content.

    Raises:
        ConfigError: It cannot be run, or gives no SARIF.
    """
    file = Path(scanner)
    if file.is_file():
        return tuple(_parse_sarif(_read(file), folder, scanner))
    with TemporaryDirectory(prefix="skills-mcp-") as made:
        output = Path(made, "findings.sarif")
        printed = _run(_compose_command(scanner, folder, output), scanner)
        log = _read(output) if output.exists() else printed
        return tuple(_parse_sarif(log, folder, scanner))


def check_with(scanner: str, tree: SkillTree, skills: Collection[AuthoredSkill]) -> list[Problem]:
    """A check of `validate`; of a part of the tree, the findings in its skills alone."""
    found = run_scanner(scanner, tree.top)
    covered = PathFilter(skill.path for skill in skills)
    is_whole = len(skills) == len(tree.skills)
    return [each for each in found if is_whole or covered.covers(Path(each.file))]


def _compose_command(scanner: str, folder: Path, output: Path) -> list[str]:
    words = shlex.split(_COMMANDS.get(scanner, scanner))
    if not any("{path}" in word for word in words):
        words.append("{path}")
    filled = (word.replace("{path}", str(folder)) for word in words)
    return [word.replace("{output}", str(output)) for word in filled]


def _run(command: Sequence[str], scanner: str) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603 - the words are the caller's own
            command, capture_output=True, check=False, timeout=_TIMEOUT_SECONDS
        )
    except FileNotFoundError as error:
        reason = f"--scanner {scanner}: there is no program {command[0]!r}"
        package = " (pip install cisco-ai-skill-scanner)" if scanner == "cisco" else ""
        raise ConfigError(f"{reason}. Install it{package}, or name a SARIF file") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"--scanner {scanner} did not end well: {error}") from error
    return done.stdout


def _read(file: Path) -> bytes:
    with file.open("rb") as handle:
        return handle.read(_MAX_BYTES)


def _parse_sarif(raw: bytes, folder: Path, scanner: str) -> Iterator[Problem]:
    try:
        runs = json.loads(raw)["runs"]
        found = [(run, result) for run in runs for result in run.get("results") or ()]
        yield from [_to_problem(run, result, folder) for run, result in found]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"--scanner {scanner} gives no SARIF. Name a SARIF file, or a command that prints SARIF"
        ) from error


def _to_problem(run: Mapping[str, Any], result: Mapping[str, Any], folder: Path) -> Problem:
    locations = result.get("locations") or [{}]
    place = locations[0].get("physicalLocation") or {}
    uri = str((place.get("artifactLocation") or {}).get("uri") or "")
    line = (place.get("region") or {}).get("startLine") or 1
    name = run["tool"]["driver"]["name"]
    text = abbreviate_value(str((result.get("message") or {}).get("text") or ""))
    reason = escape_unprintable(f"{name}, {result.get('ruleId')}: {text}")
    level: Literal["error", "warning"] = "error" if result.get("level") == "error" else "warning"
    file = folder / unquote(urlparse(uri).path if uri.startswith("file:") else uri)
    return Problem(str(file), reason, _HINT, level, rule="scanner", line=int(line))
