"""What the fields of a SKILL.md mean, wherever authors have put them."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.skills.model import (
    Asset,
    Inventory,
    Problem,
    Script,
    Skill,
    SkillPath,
    Stamp,
)
from skills_mcp.skills.skill_parser import (
    classify_file,
    derive_description,
    derive_slug,
    is_skill_md,
    parse_package,
)

STAMP = Stamp(10, 1, 1)


def parse(
    text: str, *files: str, path: str = "office/pdf"
) -> tuple[Skill | None, tuple[Problem, ...]]:
    stamps = dict.fromkeys(["SKILL.md", *files], STAMP)
    file = f"{path}/SKILL.md" if path else "SKILL.md"
    return parse_package(text, file=file, path=SkillPath(path), files=stamps)


def parse_good(text: str, *files: str, path: str = "office/pdf") -> Skill:
    skill, problems = parse(text, *files, path=path)
    assert problems == ()
    assert skill is not None
    return skill


def head(fields: str) -> str:
    """Return a package that has these fields besides its name and description."""
    return f"---\nname: pdf\ndescription: Fills forms.\n{fields}\n---\nBody.\n"


def test_a_package_is_a_skill_like_any_other() -> None:
    text = """---
name: pdf
description: Fills forms in PDF files.
license: MIT
compatibility: Needs Python
metadata:
  keywords: [pdf, form]
  category: Documents
  inherit: false
  priority: 5
allowed-tools: Read Bash(python:*)
---

# PDF

Use the script.
"""
    files = {"SKILL.md": STAMP, "scripts/fill.py": STAMP, "forms.md": STAMP}

    skill, problems = parse_package(
        text, file="office/pdf/SKILL.md", path=SkillPath("office/pdf"), files=files
    )

    assert problems == ()
    assert skill == Skill(
        path=SkillPath("office/pdf"),
        file="office/pdf/SKILL.md",
        name="pdf",
        description="Fills forms in PDF files.",
        keywords=("pdf", "form"),
        body="# PDF\n\nUse the script.",
        inherit=False,
        priority=5,
        assets=(Asset("forms.md", "", "reference"),),
        scripts=(Script("scripts/fill.py", "", "claude", ()),),
        directory=None,
        category="documents",
        files=files,
        inventory=Inventory(
            script_files=("scripts/fill.py",),
            reference_files=("forms.md",),
            template_files=(),
            total_files=3,
            total_size_bytes=30,
        ),
    )


def test_what_a_package_leaves_out_has_a_default() -> None:
    skill = parse_good("---\nname: pdf\ndescription: D\n---\n")

    assert skill.keywords == ()
    assert skill.category == ""
    assert skill.inherit is True
    assert skill.priority == 0
    assert skill.assets == ()
    assert skill.scripts == ()
    assert skill.body == ""


# --- name and description -----------------------------------------------------


@pytest.mark.parametrize(
    "written, name",
    [
        ("pdf", "pdf"),
        ("PDF Tools", "PDF Tools"),
        ("another-name", "another-name"),
        ("42", "42"),
        ("2025-10-20", "2025-10-20"),
        ("no", "no"),
        ("認証", "認証"),
        ("a" * 200, "a" * 200),
        (">-\n  two\n  lines", "two lines"),
    ],
)
def test_a_name_may_be_what_the_standard_does_not_allow(written: str, name: str) -> None:
    assert parse_good(f"---\nname: {written}\ndescription: D\n---\n").name == name


@pytest.mark.parametrize("written", ["", "''", "~", "null", "[pdf]", "{a: b}"])
def test_a_missing_name_is_that_of_the_folder(written: str) -> None:
    skill, [problem] = parse(f"---\nlicense: x\nname: {written}\ndescription: D\n---\n")

    assert skill is not None
    assert skill.name == "pdf"
    assert (problem.level, problem.rule, problem.line) == ("warning", "name", 3)
    assert problem.reason == "has no name, so pdf is used"
    assert problem.hint == "add name: pdf"


@pytest.mark.parametrize(
    "fields, line",
    [
        ("name: pdf", 1),
        ("name: pdf\ndescription:", 3),
        ("name: pdf\ndescription: ''", 3),
        ("name: pdf\ndescription: null", 3),
        ("description: []", 2),
        ("description: {}", 2),
        ("{description: [a, b]}", 2),
    ],
)
def test_a_package_without_a_description_says_how_it_begins(fields: str, line: int) -> None:
    skill, [problem, *_] = parse(f"---\n{fields}\n---\n# Forms\n\nBody. More.\n")

    assert skill is not None
    assert skill.description == "Forms: Body."
    assert (problem.level, problem.rule) == ("warning", "description")
    assert problem.line == line
    assert "its first heading and sentence are used" in problem.reason


@pytest.mark.parametrize("body", ["", "\n \n", "```\ncode\n```", "![](a.png)", "---"])
def test_without_any_text_a_package_cannot_be_found(body: str) -> None:
    skill, [problem] = parse(f"---\nname: pdf\n---\n{body}")

    assert skill is None
    assert (problem.level, problem.rule) == ("error", "description")
    assert "no text to take one from" in problem.reason


@pytest.mark.parametrize(
    "written, description",
    [
        ("|\n  One.\n\n  Two.", "One. Two."),
        ("Uses <b>tags</b> & more", "Uses <b>tags</b> & more"),
        ("填写表单", "填写表单"),
        ("D" * 3000, "D" * 3000),
        ("x", "x"),
        ("1.0", "1.0"),
    ],
)
def test_a_description_is_kept_as_one_line(written: str, description: str) -> None:
    text = f"---\nname: pdf\ndescription: {written}\n---\n"

    assert parse_good(text).description == description


@pytest.mark.parametrize(
    "text, rule",
    [
        ("---\nname: pdf\ndescription: D\n", "frontmatter"),
        ("---\n[[[\n---\n", "yaml"),
    ],
)
def test_a_text_that_cannot_be_understood_says_why(text: str, rule: str) -> None:
    skill, [problem] = parse(text)

    assert skill is None
    assert (problem.level, problem.rule) == ("error", rule)
    assert problem.file == "office/pdf/SKILL.md"
    assert problem.hint


@pytest.mark.parametrize(
    "text, rule",
    [
        ("# PDF\n\nNo frontmatter.\n", "no-frontmatter"),
        ("---\n- name: x\n---\n# PDF\n\nNo frontmatter.", "frontmatter"),
        ("---\n---\n# PDF\nNo frontmatter.", "frontmatter"),
    ],
)
def test_a_package_without_fields_is_called_like_its_folder(text: str, rule: str) -> None:
    skill, problems = parse(text)

    assert skill is not None
    assert (skill.name, skill.description) == ("pdf", "PDF: No frontmatter.")
    assert skill.body.startswith("# PDF")
    assert {problem.level for problem in problems} == {"warning"}
    assert [problem.rule for problem in problems] == [rule, "description", "name"]
    assert all(problem.hint for problem in problems)


def test_what_is_no_text_gets_no_description() -> None:
    skill, [problem] = parse("-\0-\0-\0\n\0n\0a\0m\0e\0")

    assert skill is None
    assert (problem.level, problem.rule) == ("error", "encoding")


def test_an_empty_file_is_no_skill() -> None:
    skill, problems = parse("")

    assert skill is None
    assert [problem.rule for problem in problems] == ["no-frontmatter", "description"]
    assert problems[-1].level == "error"


# --- a description that is taken from the text --------------------------------


@pytest.mark.parametrize(
    "body, description",
    [
        ("# Fix tests\n\nRun it first. Then read.", "Fix tests: Run it first."),
        ("Run it first. Then read.", "Run it first."),
        ("# Fix tests", "Fix tests"),
        ("Fix tests\n=====\n\nRun it.", "Fix tests"),
        ("# Fix ##\nRun it\nin two lines. Then", "Fix: Run it in two lines."),
        ("# Version 1.2 of it\n\nUse 1.2. Then", "Version 1.2 of it: Use 1.2."),
        ("# **Fix** `tests`\n\nRead [it](x.md).", "Fix tests: Read it."),
        ("![logo](x.png)\n# Fix\n\n- a\n- b\n\nRun.", "Fix: Run."),
        ("<!-- # No -->\n```sh\n# no\n```\n# Fix\n\n> no\n\nRun.", "Fix: Run."),
        ("~~~\n# no\n", ""),
        ("# 表\n\n表を読む。次に書く。", "表: 表を読む。"),
        ("# Fix\x1b[2J\u202e\n\nR\0un.", "Fix[2J: Run."),
        ("#no heading\n\nRun.", "Run."),
        ("| a |\n| - |", ""),
    ],
)
def test_a_text_is_described_by_its_first_heading_and_sentence(body: str, description: str) -> None:
    assert derive_description(body) == description


@pytest.mark.parametrize(
    "body",
    [
        "x" * 5_000_000,
        "# " + "x" * 5_000_000,
        "# " + "#" * 5_000_000 + "x",
        "word " * 1_000_000,
        "[" * 1_000_000,
        "<!--" * 1_000_000,
        "```a\n" * 1_000_000,
        "# " + " #" * 1_000_000,
        "a\n" * 1_000_000,
    ],
)
def test_a_description_from_a_hostile_text_is_bounded(body: str) -> None:
    assert len(derive_description(body)) <= 602


@given(st.text(st.sampled_from("#a `~<!->[](*_\n\0.|=\u202e"), max_size=60))
def test_a_description_from_any_text_is_one_line_that_can_be_shown(body: str) -> None:
    description = derive_description(body)

    assert description == " ".join(description.split())
    assert description.isprintable()


# --- keywords, category, inherit and priority ---------------------------------


@pytest.mark.parametrize(
    "fields, keywords",
    [
        ("keywords: [a, b]", ("a", "b")),
        ("keywords: a, b c , d", ("a", "b c", "d")),
        ("keywords:\n- a\n- b", ("a", "b")),
        ("tags: [a, b]", ("a", "b")),
        ("tags: a,b", ("a", "b")),
        ("triggers: [a, b]", ("a", "b")),
        ("metadata: {keywords: [a, b]}", ("a", "b")),
        ("metadata: {keywords: 'a, b'}", ("a", "b")),
        ("metadata: {tags: [a, b]}", ("a", "b")),
        ("metadata: {skillhub: {tags: [a, b]}}", ("a", "b")),
        ("metadata: {triggers: {keywords: [a, b], files: [c]}}", ("a", "b")),
        ("tags: [a]\nkeywords: [b, A]\nmetadata: {tags: [c, B]}", ("b", "A", "c")),
        ("tags: [1.10, no, 2025-10-20]", ("1.10", "no", "2025-10-20")),
        ("tags: [a, '', [b], {c: d}, ~]", ("a", "~")),
        ("tags: ', ,'", ()),
        ("tags: {a: b}", ()),
        ("triggers: {a: b}", ()),
        ("metadata: {tags: {a: b}, triggers: [a]}", ()),
        ("", ()),
    ],
)
def test_keywords_are_collected_from_every_customary_place(
    fields: str, keywords: tuple[str, ...]
) -> None:
    assert parse_good(head(fields)).keywords == keywords


@pytest.mark.parametrize(
    "fields, category",
    [
        ("category: Web Design", "web design"),
        ("metadata: {category: Web}", "web"),
        ("metadata: {skillhub: {category: Web}}", "web"),
        (
            "category: c\nmetadata: {category: b, skillhub: {category: a}}",
            "a",
        ),
        ("category: c\nmetadata: {category: b}", "b"),
        ("category: c\nmetadata: {category: ''}", "c"),
        ("category: [a]", ""),
        ("metadata: {skillhub: web}", ""),
    ],
)
def test_a_category_is_the_most_particular_one_and_folded(fields: str, category: str) -> None:
    assert parse_good(head(fields)).category == category


@pytest.mark.parametrize(
    "fields, inherit, priority",
    [
        ("inherit: false\npriority: 7", False, 7),
        ("metadata: {inherit: no, priority: '-7'}", False, -7),
        ("inherit: true\nmetadata: {inherit: false}", True, 0),
        ("priority: 1\nmetadata: {priority: 2}", True, 1),
        ("metadata: {skillhub: {inherit: false}}", True, 0),
    ],
)
def test_inheritance_and_priority_may_stand_in_the_metadata(
    fields: str,
    inherit: bool,  # noqa: FBT001
    priority: int,
) -> None:
    skill = parse_good(head(fields))

    assert (skill.inherit, skill.priority) == (inherit, priority)


@pytest.mark.parametrize(
    "fields, is_core",
    [
        ("alwaysApply: true", True),
        ("metadata: {alwaysApply: 'yes'}", True),
        ("metadata: {skillhub: {alwaysApply: true}}", True),
        ("alwaysApply: false\nmetadata: {skillhub: {alwaysApply: true}}", False),
        ("metadata: {always: true}", False),
    ],
)
def test_a_core_skill_is_declared_in_one_of_three_places(
    fields: str,
    is_core: bool,  # noqa: FBT001
) -> None:
    assert parse_good(head(fields)).always_apply == is_core


@pytest.mark.parametrize(
    "fields, rule",
    [
        ("inherit: sometimes", "inherit-type"),
        ("inherit: [no]", "inherit-type"),
        ("alwaysApply: on Fridays", "alwaysApply-type"),
        ("priority: high", "priority-type"),
        ("metadata: {priority: 5000}", "priority-type"),
    ],
)
def test_a_wrong_switch_or_number_is_reported_and_its_default_used(fields: str, rule: str) -> None:
    skill, [problem] = parse(head(fields))

    assert skill is not None
    assert (skill.inherit, skill.priority, skill.always_apply) == (True, 0, False)
    assert (problem.level, problem.rule) == ("warning", rule)


def test_a_long_wrong_value_is_not_repeated_as_a_whole() -> None:
    _, [problem] = parse(head(f"priority: {'high' * 1000}"))

    assert len(problem.reason) < 120
    assert problem.reason.endswith(", so 0 is used")


# --- what others write --------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        "metadata:",
        "metadata: null",
        "metadata: text",
        "metadata: [a, {b: c}]",
        "metadata: {a: {b: {c: {d: {e: {f: g}}}}}}",
        "metadata: {updated: 2025-10-20, version: 1.0, big: 1e999, nan: .nan}",
        'metadata: {"vendor": {"emoji": "x", "requires": {"bins": ["jq"]}}}',
        "updated: 2025-10-20 12:00:00",
        "updated: 2025-13-45",
        "version: 1.10",
        "allowed-tools: Read Grep Bash(git:*)",
        "allowed-tools: Read, Grep, Bash(git *)",
        "allowed-tools: [Read, Grep]",
        "allowed-tools:\n- Read\n- Grep",
        "allowed-tools:",
        "tools: {Read: true}",
        "compatibility: [claude-code]",
        "compatibility: {python: 3}",
        "user-invocable: true\nargument-hint: '[file]'\nauthor: Ada",
        "license: Proprietary. See LICENSE.txt",
        "1: 2\ntrue: false\nnull: x",
        "assets: [{file: ../x}]\nscripts: all\nexecution: server",
        "a: !!binary x\nb: !vendor {c: d}\nc: !!python/object:os.system x",
    ],
)
def test_no_other_field_does_any_harm(fields: str) -> None:
    skill = parse_good(head(fields))

    assert (skill.name, skill.description) == ("pdf", "Fills forms.")
    assert skill.body == "Body."
    assert skill.scripts == ()


# --- where it stands ----------------------------------------------------------


@pytest.mark.parametrize(
    "name, path",
    [
        ("pdf", "pdf"),
        ("StarRocks Debug", "starrocks-debug"),
        ("a/b", "a-b"),
        ("../../etc", "etc"),
        ("_root", "root"),
        ("認証", "認証"),
        ("---", "skill"),
    ],
)
def test_a_package_at_the_top_has_its_path_from_its_name(name: str, path: str) -> None:
    skill = parse_good(f"---\nname: '{name}'\ndescription: D\n---\n", path="")

    assert skill.path == path
    assert skill.path == derive_slug(name)
    assert skill.name == name


def test_a_package_at_the_top_without_a_name_is_called_skill() -> None:
    skill, [problem] = parse("---\ndescription: D\n---\n", path="")

    assert skill is not None
    assert (skill.path, skill.name) == ("skill", "skill")
    assert problem.rule == "name"


@pytest.mark.parametrize("name", ["SKILL.md", "skill.md", "Skill.md", "SKILL.MD"])
def test_the_file_may_be_written_in_any_case(name: str) -> None:
    assert is_skill_md(name)


@pytest.mark.parametrize("name", ["SKILLS.md", "SKILL.markdown", "SKILL", "a-SKILL.md"])
def test_no_other_file_makes_a_package(name: str) -> None:
    assert not is_skill_md(name)


# --- its files ----------------------------------------------------------------


@pytest.mark.parametrize(
    "file, kind",
    [
        ("scripts/run.py", "script"),
        ("scripts/inner/run.sh", "script"),
        ("Scripts/RUN.PY", "script"),
        ("scripts/deploy", "script"),
        ("scripts/data.json", "other"),
        ("scripts/README.md", "reference"),
        ("scripts/page.tmpl", "template"),
        ("run.py", "other"),
        ("inner/scripts/run.py", "other"),
        ("references/api.md", "reference"),
        ("reference/schema.json", "reference"),
        ("REFERENCE.md", "reference"),
        ("forms.md", "reference"),
        ("templates/page.html", "template"),
        ("template/page.md", "template"),
        ("page.html.j2", "template"),
        ("examples/one.md", "example"),
        ("examples/one.tmpl", "example"),
        ("assets/logo.png", "asset"),
        ("assets/guide.md", "asset"),
        ("logo.png", "other"),
        ("LICENSE.txt", "other"),
        ("Makefile", "other"),
        ("scripts", "other"),
    ],
)
def test_the_folder_and_the_extension_say_what_a_file_is_for(file: str, kind: str) -> None:
    assert classify_file(file) == kind


def test_every_file_is_an_asset_or_a_script_that_the_agent_runs() -> None:
    skill = parse_good(head(""), "scripts/b.py", "scripts/a.sh", "scripts/a.json", "x.png")

    assert [script.file for script in skill.scripts] == ["scripts/b.py", "scripts/a.sh"]
    assert {script.execution for script in skill.scripts} == {"claude"}
    assert [(asset.file, asset.type) for asset in skill.assets] == [
        ("scripts/a.json", "other"),
        ("x.png", "other"),
    ]


def test_the_inventory_counts_everything_in_the_folder() -> None:
    files = {
        "SKILL.md": Stamp(100, 1, 1),
        "scripts/run.py": Stamp(20, 1, 1),
        "references/a.md": Stamp(3, 1, 1),
        "b.md": Stamp(0, 1, 1),
        "templates/t.html": Stamp(4, 1, 1),
        "logo.png": Stamp(5, 1, 1),
    }

    skill, _ = parse_package(head(""), file="pdf/SKILL.md", path=SkillPath("pdf"), files=files)

    assert skill is not None
    assert skill.inventory == Inventory(
        script_files=("scripts/run.py",),
        reference_files=("references/a.md", "b.md"),
        template_files=("templates/t.html",),
        total_files=6,
        total_size_bytes=132,
    )


def test_a_second_main_file_is_a_file_like_any_other() -> None:
    skill = parse_good(head(""), "skill.md", "inner/SKILL.md")

    assert [asset.file for asset in skill.assets] == ["skill.md", "inner/SKILL.md"]


# --- any fields at all --------------------------------------------------------

KEYS = st.sampled_from(
    [
        *("name", "description", "metadata", "keywords", "tags", "triggers"),
        *("category", "inherit", "priority", "skillhub", "allowed-tools", "1"),
    ]
)
LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.dates() | st.text()
VALUES = st.recursive(
    LEAF | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_any_value_of_any_field_is_a_skill_or_a_problem(
    fields: Mapping[str, Any],
) -> None:
    for values in (fields, {**fields, "description": "D"}):
        text = f"---\n{yaml.safe_dump(values, allow_unicode=True)}---\nBody."
        skill, problems = parse(text)

        errors = [problem for problem in problems if problem.level == "error"]
        assert bool(errors) is (skill is None)
        if skill:
            assert skill.name
            assert skill.description
            assert all(keyword.strip() for keyword in skill.keywords)
            assert skill.category == skill.category.casefold()


@pytest.mark.parametrize(
    "written, words",
    [
        ("python3 scripts/run.py", ("python3", "scripts/run.py")),
        ("bash -c 'echo \"$HOME\"; ls *'", ("bash", "-c", 'echo "$HOME"; ls *')),
        ("  cat\tone\ntwo  # three", ("cat", "one", "two", "#", "three")),
        ("node 'in [1].js' ''", ("node", "in [1].js", "")),
        ("", ()),
        ("~", ()),
        ("null", ()),
        ("   ", ()),
    ],
)
def test_an_entry_is_words_and_nothing_in_them_is_expanded(
    written: str, words: tuple[str, ...]
) -> None:
    text = yaml.safe_dump({"name": "pdf", "description": "D", "entry": written})

    assert parse_good(f"---\n{text}---\n").entry == words


@pytest.mark.parametrize("fields", ["entry: cat a", "metadata:\n  entry: cat a"])
def test_an_entry_may_stand_where_the_standard_allows_it(fields: str) -> None:
    assert parse_good(head(fields)).entry == ("cat", "a")


@pytest.mark.parametrize(
    "fields",
    ["entry: cat 'a", "entry: cat a\\", "entry: [cat, a]", "entry:\n  run: cat a"],
)
def test_a_broken_entry_costs_the_package_nothing_else(fields: str) -> None:
    skill, [problem] = parse(head(fields))

    assert skill is not None
    assert (skill.entry, skill.description) == ((), "Fills forms.")
    assert (problem.rule, problem.level, problem.line) == ("entry-type", "warning", 4)
    assert "entry: python3 scripts/run.py" in problem.hint


@given(st.text())
def test_whatever_an_entry_is_it_raises_nothing(written: str) -> None:
    text = yaml.safe_dump({"name": "pdf", "description": "D", "entry": written})

    skill, _ = parse(f"---\n{text}---\n")

    assert skill is not None
    assert all(isinstance(word, str) for word in skill.entry)


@pytest.mark.parametrize(
    "head, described, keywords",
    [
        ("description: Post to the #ops channel", "Post to the #ops channel", ()),
        ("description: Post to the #ops channel # TODO", "Post to the #ops channel", ()),
        ("description: Post to\n  the #ops\n  channel", "Post to the #ops channel", ()),
        ("description: D\nkeywords: [chat, #ops]", "D", ("chat", "#ops")),
        ("description: D\nkeywords:\n  - chat\n  - '#a'\n  - #ops", "D", ("chat", "#a", "#ops")),
        ("description: D\nmetadata:\n  tags: chat, #ops", "D", ("chat", "#ops")),
    ],
)
def test_a_word_with_a_hash_is_text_and_is_named(
    head: str, described: str, keywords: tuple[str, ...]
) -> None:
    skill, [problem] = parse(f"---\nname: pdf\n{head}\n---\nBody.\n")

    assert skill is not None
    assert (skill.description, skill.keywords) == (described, keywords)
    assert (problem.rule, problem.level) == ("hash", "warning")
    assert "quotes" in problem.hint


@pytest.mark.parametrize(
    "head",
    [
        "description: D # a comment\npriority: 5 #high",
        "description: D\n#keywords: [a]",
        "description: |\n  D\nlicense: MIT #x",
        'description: "D" #x',
    ],
)
def test_a_comment_of_yaml_stays_a_comment(head: str) -> None:
    skill = parse_good(f"---\nname: pdf\n{head}\n---\nBody.\n")

    assert (skill.description, skill.keywords) == ("D", ())


@pytest.mark.parametrize(
    "text, rules",
    [
        ("---\nName: pdf\nDESCRIPTION: D\n---\n", {"key-spelling"}),
        ("---\nname：pdf\ndescription：D\n---\n", {"key-spelling"}),  # noqa: RUF001
        ("---\nname:pdf\ndescription:D\n---\n", {"key-spelling"}),
        ("---\nname: pdf\ndescription: D\na line without a colon\n---\n", {"yaml"}),
        ("```yaml\nname: pdf\ndescription: D\n```\n", {"frontmatter"}),
        ("  ---\n  name: pdf\n  description: D\n  ---\n", {"frontmatter"}),
    ],
)
def test_a_head_in_another_spelling_is_read_and_named(text: str, rules: set[str]) -> None:
    skill, problems = parse(f"{text}Body.\n")

    assert skill is not None
    assert (skill.name, skill.description, skill.body) == ("pdf", "D", "Body.")
    assert {problem.rule for problem in problems} == rules
