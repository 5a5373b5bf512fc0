"""What the reference says of the files of skills."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from skills_mcp.files.paths import is_desktop_file
from skills_mcp.skills import document, model, skill_discovery, skill_parser, source_layout
from skills_mcp.skills.lifecycle import parse_relations
from skills_mcp.skills.model import Lifecycle, Problem, Skill, SkillPath
from skills_mcp.skills.skill_index import derive_parent_path
from skills_mcp.skills.skill_parser import (
    SKILL_MD,
    classify_file,
    derive_rule_path,
    derive_slug,
    parse_package,
    parse_rule_file,
)
from skills_mcp.snapshots import loaded_skills, skill_snapshot
from skills_mcp.text.safe_yaml import MAX_YAML_CHARACTERS
from tests.docs.pages import (
    NOTHING,
    PAGES,
    REFERENCE,
    Block,
    blocks,
    code,
    codes,
    section,
    table,
    templates,
)
from tests.skills.contents import take
from tests.support import BROKEN, PROJECT

FORMAT = REFERENCE / "skill-format.md"
LIFE_CYCLE = REFERENCE / "life-cycle.md"
PROBLEMS = REFERENCE / "problems.md"
MODULES = (
    loaded_skills,
    skill_discovery,
    document,
    skill_parser,
    source_layout,
    skill_parser,
    skill_snapshot,
    skill_discovery,
)
REASON = re.compile(r"(?:has|is|names|declares|cannot|…[,;]) \S")
REFUSED = (
    *(skill_discovery._NOT_PRINTABLE, skill_discovery._UNSAFE, skill_discovery._COLLISION),
    *skill_discovery._REFUSED_KINDS.values(),
)


def read_package(text: str, path: str = "pdf") -> tuple[Skill | None, Any]:
    return parse_package(text, file=f"{path}/{SKILL_MD}", path=SkillPath(path), files={})


def problem_rows() -> list[dict[str, str]]:
    return table(section(PROBLEMS, "## Problems"))


# --- problems -------------------------------------------------------------------


@pytest.mark.spec("4.2")
def test_every_problem_of_a_file_is_documented_and_no_other() -> None:
    reasons = {
        re.sub(r"\{[^}]*\}", "…", text)
        for module in MODULES
        for text in templates(module)
        if REASON.match(text) and "\n" not in text and not text.endswith(" ")
    }

    said = {code(row["What is wrong"]) for row in problem_rows()}
    summaries = {text for text in said if text.startswith("holds ")}
    assert said - summaries == reasons
    assert len(summaries) == 7


def test_every_rule_has_its_name_in_the_table_and_no_other() -> None:
    source = "".join(map(inspect.getsource, MODULES))
    call = r"(?:\.(?:fail|warn)\(\s*|rule ?= ?|_without_fields\()"
    named = re.findall(rf'{call}f?"([^"]+)"', source)

    named += [skill_discovery._OUTSIDE, *(rule for _, _, rule in REFUSED)]
    documented = {code(row["Rule"]) for row in problem_rows()}

    assert documented == {re.sub(r"\{.*?\}", "…", name) for name in named}


def as_pattern(text: str) -> str:
    return ".*".join(map(re.escape, code(text).split("…")))


def every_defect() -> list[Problem]:
    folders = [*BROKEN.iterdir(), *(PROJECT / "fixtures/broken-packages").iterdir()]
    found = (problem for folder in folders for problem in take(folder).problems)
    return [problem for problem in found if problem.file != "config.yaml"]


def test_every_defect_of_the_fixtures_has_its_row() -> None:
    errors, _, warnings = section(PROBLEMS, "## Problems").partition("A `warning` means")
    rows = {"error": table(errors), "warning": table(warnings)}

    for problem in every_defect():
        assert [
            row
            for row in rows[problem.level]
            if re.match(as_pattern(row["What is wrong"]), problem.reason)
            and re.fullmatch(as_pattern(row["Rule"]), problem.rule)
        ], problem


# --- rule files -----------------------------------------------------------------


def test_every_field_of_a_rule_file_is_documented_and_no_other() -> None:
    _, _, source = inspect.getsource(skill_parser).partition("def parse_rule_file(")
    source += "".join(map(inspect.getsource, (document.get_priority, document.get_always_apply)))
    source += 'get_text(fields, "owner")'
    reading = r'(?:fields\.get\(|_?get_(?:text|flag|words|stripped)\(\w+, )"(\w+)"'
    read = re.findall(reading, source)
    listed = re.findall(r'_parse_(?:entries|mappings)\(\w+, "(\w+)"(?:, "(\w+)")?', source)
    rows = table(section(FORMAT, "### Fields of a rule file"))

    documented = {re.split(r"[\[\].]+", code(row["Field"]))[-1] for row in rows}

    assert documented == {*read, *(n for pair in listed for n in pair if n)} | {"file"}


@pytest.mark.spec("4.3")
@pytest.mark.spec("4.4")
def test_paths_and_parents_are_derived_as_documented() -> None:
    for row in table(section(FORMAT, "## Paths")):
        file = code(row["File"])
        folder, _, name = file.rpartition("/")
        path = SkillPath(folder) if name == SKILL_MD else derive_rule_path(file)
        parent = derive_parent_path(path)

        assert path == code(row["Path"])
        assert (f"`{parent}`" if parent else NOTHING) == row["Parent"]
    assert "so `PDF Tools` is `pdf-tools`" in section(FORMAT, "## Paths")
    assert derive_slug("PDF Tools") == "pdf-tools"


def is_package(each: Block) -> bool:
    return each.words == ("package",) or (each.title or "").endswith(SKILL_MD)


def documented_files() -> list[Block]:
    every = (each for page in PAGES for each in blocks(page, "markdown"))
    return [each for each in every if each.text.startswith("---")]


def test_every_head_of_a_rule_file_is_valid(tmp_path: Path) -> None:
    heads = [f"---\n{each.text}---\n" for page in PAGES for each in blocks(page, "yaml", "skill")]
    whole = [
        each.text
        for each in documented_files()
        # The tutorial breaks a file on purpose.
        if not is_package(each) and each.title != "skills/ui/react/forms.md"
    ]

    found = [parse_rule_file(text, file="x.md", directory=tmp_path)[1] for text in heads + whole]

    assert found == [()] * len(found)


def test_every_package_that_is_shown_is_served() -> None:
    shown = [each for each in documented_files() if is_package(each)]

    assert shown
    for each in shown:
        skill, _ = read_package(each.text)
        assert skill is not None, each.title


def test_the_package_of_this_page_has_no_problem() -> None:
    [each] = blocks(FORMAT, "markdown", "package")

    skill, found = read_package(each.text)

    assert found == ()
    assert skill is not None
    assert (skill.keywords, skill.category) == (
        ("pdf", "form", "declaration"),
        "office",
    )


# --- packages -------------------------------------------------------------------

VALUES: dict[str, tuple[object, object]] = {
    "keywords": (["x"], ("x",)),
    "category": ("x", "x"),
    "owner": ("x", "x"),
    "inherit": (False, False),
    "priority": (7, 7),
    "examples": (["x"], ("x",)),
    "entry": ("x 'y z'", ("x", "y z")),
    "alwaysApply": (True, True),
    "disable-model-invocation": (True, True),
}
"""What is written, and what comes of it."""


def value_of(skill: Skill, field: str) -> object:
    names = {"alwaysApply": "always_apply", "disable-model-invocation": "user_only"}
    return getattr(skill, names.get(field, field))


def places() -> list[tuple[str, str]]:
    rows = table(section(FORMAT, "### Fields of a package"))
    return [(code(row["Field"]), code(row["Place"])) for row in rows if "Place" in row]


def nested(place: str, value: object) -> dict[str, Any]:
    for key in reversed(place.split(".")):
        value = {key: value}
    assert isinstance(value, dict)
    return value


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    both = {**one, **other}
    for key in one.keys() & other.keys():
        both[key] = merged(one[key], other[key])
    return both


def read_fields(values: dict[str, Any]) -> Skill:
    head = yaml.safe_dump({"name": "pdf", "description": "D", **values})
    skill, found = read_package(f"---\n{head}---\n")
    assert found == ()
    assert skill is not None
    return skill


@pytest.mark.parametrize("field, place", places())
def test_a_field_is_read_at_every_place_of_the_table(field: str, place: str) -> None:
    written, expected = VALUES[field]

    skill = read_fields(nested(place, written))

    assert value_of(skill, field) == expected


@pytest.mark.parametrize(
    "field, written",
    [
        ("category", ["x", "y", "z"]),
        ("owner", ["x", "y", "z", "w"]),
        ("inherit", [False, True]),
        ("priority", [7, 8]),
        ("examples", [["x"], ["y"]]),
        ("entry", ["x 'y z'", "z"]),
        ("alwaysApply", [True, False, False]),
        ("disable-model-invocation", [True, False]),
    ],
)
def test_the_first_place_of_the_table_counts(field: str, written: list[object]) -> None:
    own = [place for name, place in places() if name == field]
    values: dict[str, Any] = {}
    for place, value in zip(own, written, strict=True):
        values = merged(values, nested(place, value))

    assert value_of(read_fields(values), field) == VALUES[field][1]


def test_no_other_place_is_read() -> None:
    source, _, _ = inspect.getsource(skill_parser).partition("def parse_rule_file(")
    keyword_places = re.findall(r"get_words\(", source)
    category_places = re.findall(r'get_text\(.*, "category"\)', source)

    found = [field for field, _ in places()]

    assert found.count("keywords") == len(keyword_places)
    assert found.count("category") == len(category_places)
    assert set(found) == VALUES.keys()


def test_every_field_of_a_package_is_documented_and_no_other() -> None:
    rows = table(section(FORMAT, "### Fields of a package"))

    documented = [code(row["Field"]) for row in rows if "Meaning" in row]

    assert documented == ["description", "name", *VALUES]


def test_files_are_classified_as_documented() -> None:
    rows = table(section(FORMAT, "### The files of a package"))
    for row in rows:
        kind = code(row["Kind"])
        for example in codes(row["Path"]):
            file = example.replace("…", "x") if "/" in example else f"x{example}"
            if kind == "script" and "/" not in example:
                file = f"scripts/{file}"

            assert classify_file(file) == kind, example
    assert {code(row["Kind"]) for row in rows} == {
        *("script", "reference", "template", "example", "asset", "other")
    }


# --- limits ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        f"{skill_discovery.MAX_SKILL_BYTES:,} bytes, UTF-8",
        f"{MAX_YAML_CHARACTERS:,} characters, 32 levels, 10,000 values",
        f"{document._MAX_PREAMBLE:,} characters |",
        f"more than {skill_discovery.MAX_DEPTH} levels",
        f"| {skill_discovery.MAX_DEPTH} levels |",
        f"-1000 to {document._MAX_PRIORITY} |",
        f"{model._MAX_WARNINGS}, each of {model._MAX_REASON_CHARACTERS} characters",
    ],
)
def test_limits_are_those_of_the_program(words: str) -> None:
    assert words in FORMAT.read_text(encoding="utf-8")


def test_what_is_skipped_is_listed() -> None:
    [line] = [
        line
        for line in section(FORMAT, "## Layout").splitlines()
        if line.startswith("What tools leave behind")
    ]

    names, _, added = line.partition(", and what macOS")
    assert set(codes(names)) == source_layout.IGNORED_NAMES
    assert all(is_desktop_file(code.replace("*", "a")) for code in codes(added))


# --- life cycle -----------------------------------------------------------------


def test_every_field_of_the_life_cycle_is_documented_and_no_other() -> None:
    rows = table(section(LIFE_CYCLE, "## Fields"))

    documented = {code(row["Field"]): row["Default"] for row in rows}

    fields = {"reason": "deprecated"}
    read = {fields.get(name, name) for name in Lifecycle._fields} | {*parse_relations({})}
    assert documented.keys() == read
