"""Findings in formats of other programs: SARIF, GitHub annotations, JUnit."""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

from skills_mcp.about import DISTRIBUTION, __version__
from skills_mcp.features.authoring.rules import derive_fingerprint
from skills_mcp.skills.model import Problem, escape_unprintable

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
    is_elsewhere = PurePath(file).is_absolute()
    uri = PurePath(file).as_uri() if is_elsewhere else quote(PurePath(file).as_posix())
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
    counts = _counts(file, len(found), len(failing))
    suite = ET.SubElement(root, "testsuite", counts)
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
