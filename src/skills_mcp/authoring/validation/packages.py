"""Whether a package is what the Agent Skills standard asks for."""

from collections.abc import Iterator

from skills_mcp.authoring.validation.fields import check_fields
from skills_mcp.authoring.validation.head import Reading
from skills_mcp.authoring.validation.names import check_name
from skills_mcp.authoring.validation.rules import Finding
from skills_mcp.skills.package import MAIN

MAX_LINES = 500


def check_package(reading: Reading, main: str, folder: str | None) -> Iterator[Finding]:
    """Compare a package with the standard (Agent Skills specification).

    Args:
        reading: What its main file says.
        main: What that file is called.
        folder: What its folder is called; None if that is not the author's choice.
    """
    if main != MAIN:
        reason = f"is called {main}, which some readers do not look for"
        yield Finding("main-file", reason, f"rename it to {MAIN}")
    yield from reading.findings
    if reading.head is not None:
        yield from check_name(reading.head, folder)
        yield from check_fields(reading.head)
    if reading.body is not None:
        yield from _check_body(reading.body)


def _check_body(body: str) -> Iterator[Finding]:
    if not body:
        hint = "say below the frontmatter what to do"
        yield Finding("body-empty", "has nothing below its frontmatter", hint)
    lines = body.count("\n") + 1
    if lines > MAX_LINES:
        reason = f"has a body of {lines:,} lines; each use costs all of them"
        hint = f"keep it below {MAX_LINES}: link to files such as references/details.md"
        yield Finding("body-length", reason, hint)
