"""Packages and their versions that a skill is written for: `applies_to` in its frontmatter.

See docs/reference/freshness.md.
"""

import re
from collections.abc import Mapping
from typing import Any

from skills_mcp.skills.document import EMPTY_SCALARS
from skills_mcp.skills.model import Applicability, ProblemList
from skills_mcp.skills.version_range import parse_range
from skills_mcp.text.rendering import abbreviate_value

APPLIES_TO = "applies_to"

ECOSYSTEMS = ("npm", "pypi", "golang", "maven", "cargo", "nuget", "composer")
"""Types of package URLs (purl)."""

_MAX_ENTRIES = 20  # a skill is about few packages

_PACKAGE = re.compile(rf"(?:({'|'.join(ECOSYSTEMS)}):)?(@?[\w.+~-][\w./:+~-]{{0,199}})")
_HINT = 'write: applies_to: [{package: npm:react, versions: ">=18,<19"}]'


def parse_applies_to(fields: Mapping[str, Any], report: ProblemList) -> tuple[Applicability, ...]:
    """Parse the packages and ranges; a wrong entry is reported and ignored.

    An entry is a mapping, or a text such as `npm:react >=18,<19`; the standard of
    packages allows nothing but texts in `metadata`, so one text has an entry on each line.
    """
    value = fields.get(APPLIES_TO)
    if value is None or (isinstance(value, str) and value.strip().casefold() in EMPTY_SCALARS):
        return ()
    entries = value.splitlines() if isinstance(value, str) else value
    entries = entries if isinstance(entries, list) else [entries]
    found: list[Applicability] = []
    for entry in entries[:_MAX_ENTRIES]:
        parsed = _parse_entry(entry)
        if parsed is None:
            reason = f"has {abbreviate_value(entry)} in {APPLIES_TO}, which is ignored"
            report.warn("applies-to", reason, _HINT, key=APPLIES_TO)
        else:
            found.append(parsed)
    if len(entries) > _MAX_ENTRIES:
        reason = f"has {len(entries):,} entries in {APPLIES_TO}; those after {_MAX_ENTRIES} are"
        report.warn("applies-to", f"{reason} ignored", _HINT, key=APPLIES_TO)
    return tuple(found)


def _parse_entry(entry: object) -> Applicability | None:
    if isinstance(entry, str):
        package, _, versions = entry.strip().removeprefix("- ").partition(" ")
    elif isinstance(entry, Mapping) and entry.keys() <= {"package", "versions"}:
        package, versions = entry.get("package", ""), entry.get("versions", "")
    else:
        return None
    named, versions = _PACKAGE.fullmatch(str(package).strip()), " ".join(str(versions).split())
    if not named or (versions and parse_range(versions, named[1] or "") is None):
        return None
    ecosystem, name = named[1] or "", named[2]
    if ":" in name and ecosystem != "maven":
        return None  # a type that is not known
    return Applicability(ecosystem, name.replace(":", "/"), versions)
