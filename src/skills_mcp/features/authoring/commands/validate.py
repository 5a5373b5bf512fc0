"""Check skills before they are merged.

PATHS are content repositories, folders of skills, packages or single files; without
any, the working folder is checked.
"""

import json
import os
import shlex
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import quote, unquote, urlparse
from xml.etree import ElementTree as ET

import click
from rich.console import Console
from rich.text import Text

from skills_mcp.about import DISTRIBUTION, __version__
from skills_mcp.cli.command_group import SectionedCommand, format_options
from skills_mcp.cli.terminal import print_json, progress_bar, render_problem
from skills_mcp.errors import ConfigError
from skills_mcp.features.authoring import markdown
from skills_mcp.features.authoring.package_standard import SERVER_KEYS, derive_name, split_tools
from skills_mcp.features.authoring.rules import (
    OVERLAP,
    Baseline,
    BaselineComparison,
    BaselineError,
    KnownFinding,
    RuleSelection,
    UnknownRuleError,
    compare_baseline,
    derive_fingerprint,
    load_baseline,
    name_in_baseline,
    report_removed,
    resolve_entry_path,
    select_rules,
    write_baseline,
)
from skills_mcp.features.authoring.validation import (
    AuthoredSkill,
    PathFilter,
    SkillTree,
    TreeCheck,
    Validation,
    is_repository,
    report_moved,
    route_tasks,
    validate_paths,
)
from skills_mcp.files.durable import atomic_write, fsync_folder, read_regular
from skills_mcp.skills.model import Problem, escape_unprintable
from skills_mcp.skills.skill_audit import load_audits
from skills_mcp.skills.skill_discovery import MAX_SKILL_BYTES
from skills_mcp.skills.skill_parser import SKILL_MD, is_skill_md
from skills_mcp.text.rendering import abbreviate_value, count_noun
from skills_mcp.text.safe_yaml import YamlError, parse_yaml_strings
from skills_mcp.text.unicode import strip_hidden

if TYPE_CHECKING:
    from yaml import MappingNode, Node


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


NAME_RULES = frozenset({"name", "name-characters", "name-hyphens", "name-is-folder"})
FIXABLE = NAME_RULES | {
    *("allowed-tools", "control-characters", "frontmatter", "hidden-character"),
    *("main-file", "metadata-value", "unknown-key"),
}
"""Fixable rules; some of their findings need a person, too."""

_BYTE_ORDER_MARK = "\ufeff"
_METADATA = "metadata"
_EXAMPLES = "examples"  # a task may have commas, so a list is no line of text
_INDENT = "  "

_Edit = tuple[int, int, str]
"""`(start, end, replacement)`."""


@dataclass(frozen=True, slots=True)
class FixedFile:
    file: Path
    """Its current path; a main file may have been renamed."""
    rules: tuple[str, ...]


def fix_findings(problems: Iterable[Problem]) -> tuple[FixedFile, ...]:
    """Fix the files of some findings, where a fix is unambiguous.

    A file is written only if all unrelated fields keep their meaning. An edit replaces a
    part of the text: a round trip through ruamel.yaml would also write `[a,b]`, aligned
    values and texts on two lines anew.

    Raises:
        OSError: A file cannot be written; it is unchanged.
    """
    rules: dict[Path, set[str]] = defaultdict(set)
    for problem in problems:
        if problem.rule in FIXABLE:
            rules[Path(problem.file)].add(problem.rule)
    return tuple(
        FixedFile(*done) for file, named in rules.items() if (done := _fix_file(file, named))
    )


def _fix_file(file: Path, rules: Collection[str]) -> tuple[Path, tuple[str, ...]] | None:
    raw = read_regular(file, MAX_SKILL_BYTES)
    if raw is None or file.is_symlink():
        return None
    try:
        old = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    new, done = old, []
    for rule in sorted(rules):
        mended = _fix_text(new, rule, file)
        if mended != new:
            new = mended
            done.append(rule)
    if new != old:
        with atomic_write(file, file.stat().st_mode & 0o777) as handle:
            handle.write(new.encode("utf-8"))
    if "main-file" in rules and not (file.with_name(SKILL_MD)).exists():
        file = file.rename(file.with_name(SKILL_MD))
        fsync_folder(file.parent)
        done.append("main-file")
    return (file, tuple(done)) if done else None


def _fix_text(text: str, rule: str, file: Path) -> str:
    if rule == "hidden-character":
        return strip_hidden(text)
    if rule == "control-characters":
        return markdown.without_control_characters(text)
    if rule == "frontmatter":
        return text.removeprefix(_BYTE_ORDER_MARK)
    is_package = is_skill_md(file.name)
    if not is_package or text.count("\r\n") not in {0, text.count("\n")}:
        return text
    folder = None if is_repository(file.parent) else file.parent.name
    lines = text.replace("\r\n", "\n")
    block = markdown.parse_markdown(lines.encode()).frontmatter
    new_block = _fix_block(block, rule, folder)
    if new_block == block:
        return text
    begin = lines.index(block, lines.index("---"))
    fixed = lines[:begin] + new_block + lines[begin + len(block) :]
    return fixed.replace("\n", "\r\n") if "\r\n" in text else fixed


def _fix_block(block: str, rule: str, folder: str | None) -> str:
    """Fix one rule in a frontmatter; the same block if unsafe."""
    root = markdown.compose_fields(block)
    if root is None:
        return block
    before = parse_yaml_strings(block).value
    edits = sorted(_find_edits(block, root, rule, folder), reverse=True)
    mended = block
    for begin, end, new in edits:
        mended = mended[:begin] + new + mended[end:]
    return mended if _is_unchanged(before, mended, rule) else block


def _find_edits(block: str, root: "MappingNode", rule: str, folder: str | None) -> Iterator[_Edit]:
    values = {key.value: value for key, value in root.value}
    if rule in NAME_RULES:
        yield from _edit_name(values.get("name"), folder, block)
    elif rule == "allowed-tools" and rule in values:
        tools = _list_texts(values[rule]) or split_tools(str(values[rule].value))
        yield _replace_value(values[rule], markdown.dump_scalar(" ".join(tools)), block)
    elif rule == "metadata-value" and (below := _as_block(values.get(_METADATA))):
        for key, value in below.value:
            if (text := _as_text(key.value, value)) is not None:
                yield _replace_value(value, text, block)
    elif rule == "unknown-key":
        yield from _move_to_metadata(block, root, values)


def _edit_name(node: "Node | None", folder: str | None, block: str) -> Iterator[_Edit]:
    is_legal = bool(folder) and folder == derive_name(folder or "")
    written = str(node.value) if node is not None else ""
    name = folder if folder and is_legal else derive_name(written)
    if not name:
        return
    if node is None:
        yield 0, 0, f"name: {markdown.dump_scalar(name)}\n"
    else:
        yield _replace_value(node, markdown.dump_scalar(name), block)


def _move_to_metadata(
    block: str, root: "MappingNode", values: Mapping[str, "Node"]
) -> Iterator[_Edit]:
    """Move keys of this server below `metadata`."""
    below = _as_block(values.get(_METADATA))
    if below is None and _METADATA in values:
        return
    known = {key.value for key, _ in below.value} if below else set()
    moved: list[str] = []
    ends = [key.start_mark.index for key, _ in root.value[1:]] + [len(block)]
    for (key, value), end in zip(root.value, ends, strict=True):
        name = "keywords" if key.value == "triggers" else key.value
        is_free = key.value in SERVER_KEYS and name not in known
        text = _as_text(key.value, value, is_moved=True) if is_free else None
        last = markdown.find_end(value)
        # A comment between this key and the next one belongs to the next.
        if text is not None and not block[last:end].strip().startswith("#"):
            moved.append(f"{name}: {text}\n")
            yield key.start_mark.index, end, ""
    if not moved:
        return
    if below:
        first = below.value[0][0].start_mark
        indent = " " * first.column
        yield first.index, first.index, f"{indent}".join([*moved, ""])
    else:
        lines = "".join(f"{_INDENT}{line}" for line in moved)
        yield len(block), len(block), f"{_METADATA}:\n{lines}"


def _as_block(node: "Node | None") -> "MappingNode | None":
    from yaml import MappingNode

    return node if isinstance(node, MappingNode) and markdown.is_block_value(node) else None


def _as_text(key: str, node: "Node", *, is_moved: bool = False) -> str | None:
    """Value as one-line YAML text; None if it already is, or cannot be."""
    from yaml import ScalarNode

    if isinstance(node, ScalarNode):
        is_text = node.tag == "tag:yaml.org,2002:str"
        if not node.value or "\n" in node.value or (is_text and not is_moved):
            return None
        return markdown.dump_scalar(node.value) if is_text else json.dumps(node.value)
    words = _list_texts(node)
    if not words or key == _EXAMPLES or any("," in word for word in words):
        return None
    return markdown.dump_scalar(", ".join(words))


def _list_texts(node: "Node") -> list[str]:
    from yaml import ScalarNode, SequenceNode

    if not isinstance(node, SequenceNode):
        return []
    items = [item.value for item in node.value if isinstance(item, ScalarNode)]
    is_plain = len(items) == len(node.value) and all(items)
    return [str(item) for item in items] if is_plain else []


def _replace_value(node: "Node", text: str, block: str) -> _Edit:
    """Edit of a value; a list may begin on the line below its key."""
    begin = node.start_mark.index
    if markdown.is_block_value(node):
        begin = block.rindex(":", 0, begin) + 1
    if block[begin - 1 : begin] == ":":  # a list, or nothing: `name:`
        text = f" {text}"
    return begin, markdown.find_end(node), text


def _is_unchanged(before: Any, mended: str, rule: str) -> bool:
    """Whether the unrelated fields are unchanged."""
    try:
        after = parse_yaml_strings(mended).value
    except YamlError:
        return False
    if not isinstance(before, dict) or not isinstance(after, dict):
        return False
    return _unrelated_fields(before, rule) == _unrelated_fields(after, rule)


def _unrelated_fields(fields: Mapping[str, Any], rule: str) -> Mapping[str, Any]:
    changed: Sequence[str] = (rule,)
    if rule in NAME_RULES:
        changed = ("name",)
    elif rule == "metadata-value":
        changed = (_METADATA,)
    elif rule == "unknown-key":
        changed = (_METADATA, "triggers", *SERVER_KEYS)
    return {key: value for key, value in fields.items() if key not in changed}


_SARIF_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_FINGERPRINT = "skillsMcpFinding/v1"


def display_path(file: str) -> str:
    """Relative to the working directory, if the file is below it."""
    try:
        return os.fspath(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file  # elsewhere: a long row of .. is harder to read


def display_message(problem: Problem) -> str:
    hint = problem.hint[:1].upper() + problem.hint[1:]
    return f"{problem.reason}. {hint}"


def render_sarif(problems: Sequence[Problem]) -> dict[str, Any]:
    """A SARIF 2.1.0 log, for code scanning.

    https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
    """
    rules = sorted({problem.rule for problem in problems})
    driver = {
        "name": "skills-mcp",
        "fullName": DISTRIBUTION,
        "semanticVersion": __version__,
        "rules": [_describe_rule(rule) for rule in rules],
    }
    results = [_render_result(finding, rules.index(finding.rule)) for finding in problems]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints"}
    return {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [{**run, "results": results}]}


def _describe_rule(rule: str) -> dict[str, Any]:
    name = rule.replace("-", " ").capitalize()
    help_text = f"The page 'What validate checks' describes the rule {rule}."
    return {"id": rule, "shortDescription": {"text": name}, "help": {"text": help_text}}


def _render_result(problem: Problem, rule_index: int) -> dict[str, Any]:
    file = display_path(problem.file)
    path = Path(file)
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    location = {"artifactLocation": {"uri": uri}, "region": {"startLine": max(problem.line, 1)}}
    fingerprint = derive_fingerprint(problem, Path.cwd())
    return {
        "ruleId": problem.rule,
        "ruleIndex": rule_index,
        "level": problem.level,
        "message": {"text": display_message(problem)},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {_FINGERPRINT: fingerprint},
    }


def render_github(problems: Iterable[Problem]) -> Iterator[str]:
    """GitHub workflow commands, displayed as annotations of lines.

    https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    for problem in problems:
        file = PurePath(display_path(problem.file)).as_posix()
        location = f"file={_escape_value(file)},line={problem.line}"
        title = f"title={_escape_value(problem.rule)}"
        message = _escape(display_message(problem))
        yield f"::{problem.level} {location},{title}::{message}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_value(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")


def render_junit(problems: Sequence[Problem], *, is_strict: bool) -> str:
    """A JUnit report: one suite per file, one case per finding.

    Args:
        problems: In the order of files.
        is_strict: Whether warnings fail; else they are passed cases.
    """
    root = ET.Element("testsuites", name="skills-mcp validate")
    for file, found in groupby(problems, lambda problem: display_path(problem.file)):
        _add_suite(root, escape_unprintable(file), list(found), is_strict=is_strict)
    if not problems:
        suite = ET.SubElement(root, "testsuite", _counts("skills", 1, 0))
        ET.SubElement(suite, "testcase", name="all rules", classname="skills")
    failures = sum(len(suite.findall("testcase/failure")) for suite in root)
    tests = sum(len(suite.findall("testcase")) for suite in root)
    root.attrib |= {"tests": str(tests), "failures": str(failures), "errors": "0"}
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True)


def _add_suite(root: ET.Element, file: str, found: Sequence[Problem], *, is_strict: bool) -> None:
    failing = [problem for problem in found if is_strict or problem.level == "error"]
    suite = ET.SubElement(root, "testsuite", _counts(file, len(found), len(failing)))
    for problem in found:
        name = f"{problem.rule} (line {problem.line})"
        case = ET.SubElement(
            suite, "testcase", name=name, classname=file, file=file, line=str(problem.line)
        )
        message = display_message(problem)
        if problem in failing:
            failure = ET.SubElement(case, "failure", message=message, type=problem.rule)
            failure.text = f"{file}:{problem.line}: {message}"
        else:
            ET.SubElement(case, "system-out").text = f"warning: {message}"


def _counts(name: str, tests: int, failures: int) -> dict[str, str]:
    numbers = {"tests": tests, "failures": failures, "errors": 0}
    return {"name": name} | {key: str(number) for key, number in numbers.items()}


_STYLES = {"error": "bold red", "warning": "yellow"}

_MAX_FULL_FINDINGS = 20
"""Findings to print in full; of more, a summary comes first."""

ReportFormat = Literal["text", "json", "sarif", "github", "junit"]


@dataclass(frozen=True, slots=True)
class _Report:
    """New findings, and those in the baseline."""

    found: Validation
    comparison: BaselineComparison
    baseline: Path | None
    repaired: tuple[FixedFile, ...] = ()

    @property
    def new(self) -> tuple[Problem, ...]:
        return self.comparison.new

    def count(self, level: str) -> int:
        return sum(problem.level == level for problem in self.new)


@click.command(
    cls=SectionedCommand,
    examples=(
        "skills-mcp validate ./skills",
        "skills-mcp validate ./skills --strict --json",
        "skills-mcp validate ./skills --fix",
        "skills-mcp validate ./skills --ignore 'link-*,metadata-value'",
        "skills-mcp validate . --baseline skills-baseline.json --write-baseline",
        "skills-mcp validate . --baseline skills-baseline.json --format sarif",
        "skills-mcp validate ./skills --max-overlaps 10",
        "skills-mcp validate . --powers",
        "skills-mcp validate ./skills --stale --project ../shop",
    ),
)
@click.argument(
    "paths",
    nargs=-1,
    envvar="SKILLS_DIR",
    type=click.Path(exists=True, path_type=Path),
)
@click.option(
    "--select",
    metavar="RULES",
    multiple=True,
    help="Report only these rules, with commas between them; link-* stands for all that begin so.",
)
@click.option("--ignore", metavar="RULES", multiple=True, help="Do not report these rules.")
@click.option(
    "--baseline",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Do not report the findings that this file knows.",
)
@click.option(
    "--write-baseline",
    "is_baseline_written",
    is_flag=True,
    help="Write all findings to the baseline.",
)
@click.option(
    "--fix", "is_repairing", is_flag=True, help="Repair what needs no thought, and report the rest."
)
@click.option(
    "--overlap",
    "has_overlaps",
    is_flag=True,
    help="Report pairs of skills that an ordinary task cannot tell apart, too.",
)
@click.option(
    "--max-overlaps",
    metavar="N",
    type=click.IntRange(min=0),
    help="As --overlap, and fail if there are more than N pairs.",
)
@click.option(
    "--powers",
    "has_powers",
    is_flag=True,
    help="Report what skills tell an agent to reach, too; fail beyond powers.yaml.",
)
@click.option(
    "--stale",
    "is_stale_checked",
    is_flag=True,
    help="Report skills that may no longer be true, too: past review_by, or unchanged for long.",
)
@click.option(
    "--months",
    metavar="N",
    type=click.IntRange(min=1),
    default=12,
    show_default=True,
    help="With --stale: how long a skill may be unchanged.",
)
@click.option(
    "--project",
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="With --stale: report texts about what this project has no longer, too.",
)
@click.option(
    "--usage",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --stale: a report in JSON; what was used lately is not called unchanged.",
)
@click.option(
    "--online",
    "is_online",
    is_flag=True,
    help="With --stale and --project: ask for pages of the project's organisation.",
)
@click.option(
    "--scanner",
    "scanners",
    metavar="cisco|FILE|COMMAND",
    multiple=True,
    help="Report the findings of a scanner, too: cisco, a SARIF file, or a command.",
)
@format_options(
    get_args(ReportFormat), "For people, programs, code scanning, annotations or test reports."
)
@click.option("--strict", "is_strict", is_flag=True, help="Fail on warnings, too.")
def command(
    *,
    paths: tuple[Path, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    baseline: Path | None,
    is_baseline_written: bool,
    is_repairing: bool,
    has_overlaps: bool,
    max_overlaps: int | None,
    report_format: ReportFormat,
    as_json: bool,
    is_strict: bool,
    **checked: Any,
) -> None:
    if is_repairing and is_baseline_written:
        raise click.UsageError("--fix and --write-baseline exclude each other.")
    paths = paths or (Path(),)
    choice = _choose(select, ignore)
    has_overlaps = has_overlaps or max_overlaps is not None
    checks = tuple(_open_checks(**checked))
    validation = _validate(paths, choice, checks, has_overlaps=has_overlaps)
    baseline = baseline or _find_baseline(validation)
    repaired: tuple[FixedFile, ...] = ()
    if is_repairing:
        repaired = _repair(_compare(baseline, validation, choice).new)
        renamed = (_find_again(path, repaired) for path in paths)
        validation = (
            _validate(renamed, choice, checks, has_overlaps=has_overlaps)
            if repaired
            else validation
        )
    if is_baseline_written:
        _write(baseline, validation, choice)
        return
    report = _Report(validation, _compare(baseline, validation, choice), baseline, repaired)
    _print(report, "json" if as_json else report_format, is_strict=is_strict)
    sys.exit(1 if _has_failed(report, is_strict=is_strict, max_overlaps=max_overlaps) else 0)


def _has_failed(report: _Report, *, is_strict: bool, max_overlaps: int | None) -> bool:
    """Whether a finding fails; overlaps do only beyond their budget, if there is one."""
    overlaps = sum(problem.rule == OVERLAP for problem in report.new)
    others = [p for p in report.new if p.rule != OVERLAP or max_overlaps is None]
    failing = others if is_strict else [p for p in others if p.level == "error"]
    return bool(failing) or (max_overlaps is not None and overlaps > max_overlaps)


def _open_checks(*, scanners: Sequence[str], has_powers: bool, **stale: Any) -> Iterator[TreeCheck]:
    """Open the checks that an option adds."""
    yield from (partial(check_with, scanner) for scanner in scanners)
    if has_powers:
        yield _check_powers
    yield from _open_stale_check(**stale)


def _check_powers(tree: SkillTree, skills: Collection[AuthoredSkill]) -> Iterable[Problem]:
    reports = (audit.check_powers(tree, skills) for audit in load_audits())
    known = [report for report in reports if report is not None]
    if not known:
        raise click.UsageError("--powers: this installation has no feature that knows powers.")
    return chain(*known)


def _open_stale_check(
    *,
    is_stale_checked: bool,
    months: int,
    project: Path | None,
    usage: Path | None,
    is_online: bool,
) -> Iterator[TreeCheck]:
    if is_stale_checked:
        from skills_mcp.features.authoring.stale_skills import StaleOptions, find_stale, load_usage

        used = load_usage(usage) if usage else None
        yield partial(find_stale, StaleOptions(months, project, is_online, used))
    elif project or usage or is_online:
        raise click.UsageError("--project, --usage and --online belong to --stale.")


def _validate(
    paths: Iterable[Path],
    choice: RuleSelection,
    checks: Sequence[TreeCheck],
    *,
    has_overlaps: bool,
) -> Validation:
    with progress_bar("Checking") as on_progress:
        return validate_paths(
            *paths,
            choice=choice,
            on_progress=on_progress,
            has_overlaps=has_overlaps,
            checks=checks,
        )


def _repair(problems: Iterable[Problem]) -> tuple[FixedFile, ...]:
    try:
        return fix_findings(problems)
    except OSError as error:
        reason = error.strerror or "an error of the disk"
        raise click.UsageError(
            f"{display_path(str(error.filename or ''))} cannot be written: {reason}. "
            "Its folder has to be writable."
        ) from error


def _find_again(path: Path, repaired: Iterable[FixedFile]) -> Path:
    """The path after a repair that renamed it."""
    moved = (renamed.file for renamed in repaired if renamed.file.parent == path.absolute().parent)
    return path if path.exists() else next(moved, path)


def _choose(select: Iterable[str], ignore: Iterable[str]) -> RuleSelection:
    try:
        return select_rules(_split(select), _split(ignore))
    except UnknownRuleError as error:
        raise click.UsageError(str(error)) from error


def _split(names: Iterable[str]) -> Iterator[str]:
    """Names from repeated or comma-separated options."""
    for text in names:
        yield from filter(None, map(str.strip, text.split(",")))


def _find_baseline(validation: Validation) -> Path | None:
    if len(validation.baselines) > 1:
        names = " and ".join(map(str, validation.baselines))
        raise click.UsageError(
            f"The paths have several baselines, {names}: check one tree after the "
            "other, or name one with --baseline."
        )
    return next(iter(validation.baselines), None)


def _write(baseline: Path | None, validation: Validation, choice: RuleSelection) -> None:
    """Update the baseline; entries of unchecked files stay."""
    if baseline is None:
        raise click.UsageError("--write-baseline needs a file: --baseline skills-baseline.json")
    old = _load(baseline) if baseline.exists() else Baseline(())
    retained = [e for e in old.findings if not _is_checked(baseline, e, validation, choice)]
    skills = set(name_in_baseline(baseline, validation.served))
    skills.update(name for name in old.skills if not _is_covered(baseline, name, validation))
    try:
        tasks = route_tasks(validation.trees)
        count = write_baseline(baseline, retained, validation.problems, skills, tasks)
    except OSError as error:
        reason = error.strerror or "an error of the disk"
        raise click.UsageError(f"{baseline} cannot be written: {reason}.") from error
    routed = f" and {count_noun(len(tasks), 'example task')}" if tasks else ""
    known = count_noun(count, "known finding")
    click.echo(f"Wrote {known}{routed} to {display_path(str(baseline.absolute()))}")


def _compare(
    baseline: Path | None, validation: Validation, choice: RuleSelection
) -> BaselineComparison:
    if baseline is None:
        return BaselineComparison(validation.problems, 0, ())
    loaded = _load(baseline)
    known = [e for e in loaded.findings if _is_checked(baseline, e, validation, choice)]
    skills = [name for name in loaded.skills if _is_covered(baseline, name, validation)]
    removed = report_removed(baseline, skills, name_in_baseline(baseline, validation.served))
    moved = report_moved(validation.trees, loaded.tasks, choice)
    changed = (p for p in (removed, *moved) if p is not None and choice.reports(p.rule))
    return compare_baseline(baseline, known, (*validation.problems, *changed))


def _load(baseline: Path) -> Baseline:
    try:
        return load_baseline(baseline)
    except BaselineError as error:
        raise click.UsageError(f"{error}.") from error


def _is_checked(
    baseline: Path, entry: KnownFinding, validation: Validation, choice: RuleSelection
) -> bool:
    return choice.reports(entry.rule) and _is_covered(baseline, entry.file, validation)


def _is_covered(baseline: Path, file: str, validation: Validation) -> bool:
    return validation.focus.covers(resolve_entry_path(baseline, file))


def _print(report: _Report, report_format: ReportFormat, *, is_strict: bool) -> None:
    if report_format != "json":
        for fixed in report.repaired:
            rules = ", ".join(fixed.rules)
            line = f"{display_path(str(fixed.file))}: fixed[{rules}]"
            click.echo(escape_unprintable(line), err=report_format != "text")
    match report_format:
        case "json":
            print_json(_to_json(report))
        case "sarif":
            print_json(render_sarif(report.new))
        case "junit":
            click.echo(render_junit(report.new, is_strict=is_strict))
        case "github":
            for line in render_github(report.new):
                click.echo(line)
            _print_lines((), report)
        case "text":
            _print_lines(map(_render, report.new), report)


def _print_lines(lines: Iterable[Text], report: _Report) -> None:
    console = Console(highlight=False, markup=False, emoji=False)
    for line in (*lines, *_describe_gone(report), *_tabulate_rules(report), _summarise(report)):
        # A line that is wrapped cannot be clicked or searched.
        console.print(line, soft_wrap=True)


def _render(problem: Problem) -> Text:
    return Text.assemble(
        f"{display_path(problem.file)}:{problem.line}: ",
        (f"{problem.level}[{problem.rule}]", _STYLES[problem.level]),
        f" {display_message(problem)}",
    )


def _describe_gone(report: _Report) -> Iterator[str]:
    """List repaired baseline findings, so that they do not come back unseen."""
    gone = report.comparison.gone
    if not gone or report.baseline is None:
        return
    for entry in gone[:_MAX_FULL_FINDINGS]:
        yield escape_unprintable(f"{entry.file}: repaired[{entry.rule}] {entry.reason}")
    if len(gone) > _MAX_FULL_FINDINGS:
        yield f"and {len(gone) - _MAX_FULL_FINDINGS} more"
    name = report.baseline.name
    if len(gone) == 1:
        yield f"1 entry of {name} no longer occurs: take it out with --write-baseline"
        return
    yield (f"{len(gone)} entries of {name} no longer occur: take them out with --write-baseline")


def _tabulate_rules(report: _Report) -> Iterator[str]:
    if len(report.new) <= _MAX_FULL_FINDINGS:
        return
    counts = Counter((problem.rule, problem.level) for problem in report.new)
    width = len(str(max(counts.values())))
    yield "By rule:"
    for (rule, level), count in counts.most_common():
        yield f"  {count:>{width}}  {level:7}  {rule}"
    if report.baseline is None:
        yield (
            "To see only new findings from now on, write these to a file: add "
            "--baseline skills-baseline.json --write-baseline"
        )


def _summarise(report: _Report) -> str:
    counts = (
        count_noun(report.found.skill_count, "skill"),
        count_noun(report.count("error"), "error"),
        count_noun(report.count("warning"), "warning"),
    )
    known = (f"{report.comparison.known_count} known",) if report.baseline else ()
    return ", ".join((*counts, *known))


def _to_json(report: _Report) -> dict[str, Any]:
    problems = (replace(p, file=display_path(p.file)) for p in report.new)
    rules = Counter(problem.rule for problem in report.new)
    return {
        "problems": [render_problem(problem) for problem in problems],
        "skills": report.found.skill_count,
        "errors": report.count("error"),
        "warnings": report.count("warning"),
        "rules": dict(rules.most_common()),
        "known": report.comparison.known_count,
        "gone": [entry._asdict() for entry in report.comparison.gone],
        "fixed": [
            {"file": display_path(str(fixed.file)), "rules": list(fixed.rules)}
            for fixed in report.repaired
        ],
    }
