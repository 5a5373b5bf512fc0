"""Error codes in the pages are those of the program."""

import re
from collections.abc import Iterator

from skills_mcp import errors
from skills_mcp.cli import command_group
from skills_mcp.config.variables import name_generic_variable
from skills_mcp.errors import SkillsError
from skills_mcp.scripts.policy import ENVIRONMENT_ALLOWED
from skills_mcp.server.windows.forwarder import LOST_CODE
from tests.docs.pages import (
    CONFIGURATION,
    PAGES,
    REFERENCE,
    SOURCES,
    TOOLS_PAGES,
    code,
    codes,
    prose,
    section,
    table,
)
from tests.docs.settings import all_keys

NOT_OURS = {
    "EXECUTION_TIMEOUT",
    "DB_PATH",
    "SKILLHUB_SKIP_AUTO_REINDEX",
    "BENCHMARK_TEXT",
}
"""What SkillHub and our benchmarks have, for the pages that tell of them."""


def variables() -> set[str]:
    """Return the environment variables that the reference documents."""
    rows = table(section(CONFIGURATION, "## Environment variables"))
    return {code(row["Variable"]) for row in rows}


def error_classes() -> Iterator[type[SkillsError]]:
    waiting = [SkillsError]
    while waiting:
        each = waiting.pop()
        waiting += each.__subclasses__()
        if each.__module__.startswith("skills_mcp."):  # not one that a test made up
            yield each


def test_every_error_code_is_documented_and_no_other() -> None:
    # A class that only gives an existing code another cause is no new code.
    raised = {each.code for each in error_classes()} - {SkillsError.code}
    documented = table(section(REFERENCE / "errors.md", "## Codes"))

    assert {code(row["Code"]) for row in documented} == raised
    assert all(all(row.values()) for row in documented)


def test_whose_turn_it_is_agrees_with_the_tree_of_errors() -> None:
    drawn = re.findall(r"Error +([A-Z_]+) +([a-z]+)", errors.__doc__ or "")
    documented = table(section(REFERENCE / "errors.md", "## Codes"))

    assert [(code(row["Code"]), row["Whose turn"].split()[0]) for row in documented] == drawn


def test_every_tool_names_only_errors_that_exist_and_every_error_has_a_tool() -> None:
    raised = {each.code for each in error_classes()} - {SkillsError.code}
    named = {word for word in codes("".join(map(prose, TOOLS_PAGES))) if word.isupper()}

    # Of no tool.
    untold = {"CONFIG_INVALID", "EVENTS_UNAVAILABLE", "EVENTS_DISK_FULL"}
    untold |= {"PACKAGE_REFUSED", "PACKAGE_NOT_ADDED", "HOST_FILE_REFUSED"}
    untold |= {"UPLOAD_STOPPED"}
    untold |= {"SKILL_NOT_WRITTEN", "EXPORT_FAILED"}
    assert named - NOT_OURS - variables() == raised - untold


def test_what_only_others_have_is_not_here() -> None:
    source = "\n".join(each.read_text(encoding="utf-8") for each in SOURCES)

    assert [name for name in NOT_OURS if name in source] == []


def refusals() -> set[str]:
    """Return every code with which a request over HTTP is refused."""
    rooms = [each for each in SOURCES if each.parent.name == "http"]
    source = "\n".join(each.read_text(encoding="utf-8") for each in rooms)
    found = re.findall(r'\(\s*\d{3},\s*"([A-Z_]+)"', source)  # a status, and its code
    return {*found, "INVALID_TOKEN", "SIGN_IN_NEEDED"}  # that of RFC 6750, or ours


def test_every_refusal_over_http_is_documented() -> None:
    documented = [
        code(row["Code"]) for row in table(section(REFERENCE / "errors.md", "## Over HTTP"))
    ]

    assert sorted(documented) == sorted(refusals())


def test_names_in_capitals_are_codes_or_variables_that_exist() -> None:
    known = {each.code for each in error_classes()} | variables() | NOT_OURS
    known |= refusals()
    known |= {*ENVIRONMENT_ALLOWED, "SSH_AUTH_SOCK", "SKILL_DIR"}
    # Named as what a script never sees, or as what an operator may let through.
    known |= {"LD_PRELOAD", "BASH_ENV", "NODE_OPTIONS"}
    # Where hosts keep their files.
    known |= {"CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME"}
    known |= {"GEMINI_CLI_HOME", "XDG_DATA_HOME", "DBUS_SESSION_BUS_ADDRESS"}
    known |= {"CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR"}  # which hosts set
    known |= {"GH_CONFIG_DIR", "AWS_PROFILE"}  # of credential helpers
    known |= {LOST_CODE, "FORCE_COLOR"}
    known |= {command_group.USAGE, command_group.PROMPTS_INVALID, command_group.INTERRUPTED}
    known |= {"SKILLS_NOTE_TOKEN"}  # of the jobs of GitLab
    known |= {"EXTRA_TOOLS", "HAYSTACK_DESERIALIZATION_ALLOWLIST"}  # of frameworks
    known |= {name_generic_variable(key) for key, *_ in all_keys()}
    known |= {"SKILLS_MCP__SECTION__KEY", "SOURCE_RULES"}

    assert [
        f"{page}: {word}"
        for page in PAGES
        for word in codes(prose(page))
        if re.fullmatch(r"[A-Z]+_[A-Z_]+", word)
        if word not in known and not word.startswith(("SKILL_ARG_", "GIT_", "OTEL_"))
    ] == []
