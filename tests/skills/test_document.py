"""What stands in a file: strict for rules, lenient for what others wrote."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skills_mcp.skills.document import (
    Document,
    decode_markdown,
    get_examples,
    parse_document,
)
from skills_mcp.skills.model import Problem, ProblemList, Skill, SkillPath
from skills_mcp.skills.skill_parser import parse_package, parse_rule_file
from skills_mcp.text.safe_yaml import MAX_YAML_CHARACTERS
from tests.packages import package_text
from tests.support import skill_text

Read = tuple[Document | None, tuple[Problem, ...]]


def read(raw: bytes | str, *, lenient: bool = True) -> Read:
    report = ProblemList("pdf/SKILL.md")
    data = raw.encode() if isinstance(raw, str) else raw
    text = decode_markdown(data, report, lenient=lenient)
    if text is None:
        return None, report.problems
    return parse_document(text, report, lenient=lenient), report.problems


def read_fields(raw: bytes | str) -> Mapping[str, Any]:
    document, problems = read(raw)
    assert document is not None
    assert {problem.level for problem in problems} <= {"warning"}
    return document.fields


def described(value: str) -> str:
    """Return a file whose description is written in some way."""
    return f"---\nname: pdf\ndescription: {value}\nlicense: MIT\n---\nBody.\n"


# --- what is understood as it stands ------------------------------------------


@pytest.mark.parametrize("lenient", [True, False])
@pytest.mark.parametrize(
    "raw, why",
    [
        (described("D"), "nothing special"),
        ("\ufeff" + described("D"), "a byte order mark"),
        (described("D").replace("\n", "\r\n"), "line ends of DOS"),
        ("\ufeff" + described("D").replace("\n", "\r\n", 2), "both, and mixed ends"),
        ("\n \n" + described("D"), "empty lines in front"),
        (described("'D'"), "quotes"),
        (described(">-\n  D"), "a block"),
        (described("|\n  D\n"), "a literal block"),
        (described("\n  D"), "the value on the next line"),
        (described("D # a comment"), "a comment"),
        (described("D").replace("---\n", "--- \t\n"), "spaces after the dashes"),
        (described("D").replace("---\n", "-----\n"), "more dashes"),
        (described("D") + "\n", "an empty line at the end"),
    ],
)
def test_no_repair_is_needed_for(raw: str, why: str, lenient: bool) -> None:  # noqa: FBT001
    document, problems = read(raw, lenient=lenient)

    assert document is not None, why
    assert problems == (), why
    assert document.fields["description"].strip() == "D"
    assert document.fields["license"] == "MIT"
    assert document.body == "Body."


@pytest.mark.parametrize("lenient", [True, False])
@pytest.mark.parametrize("value", ["a --- b", "'--- a'", ">\n  a\n  ---\n  b", '"---"', "|\n  ---"])
def test_dashes_inside_a_value_do_not_end_the_frontmatter(
    value: str,
    lenient: bool,  # noqa: FBT001
) -> None:
    document, problems = read(described(value), lenient=lenient)

    assert document is not None
    assert problems == ()
    assert "---" in document.fields["description"]
    assert document.body == "Body."


@pytest.mark.parametrize("lenient", [True, False])
def test_a_rule_in_the_body_stays_in_the_body(lenient: bool) -> None:  # noqa: FBT001
    document, problems = read(described("D") + "\n---\nMore.\n", lenient=lenient)

    assert document is not None
    assert problems == ()
    assert document.body == "Body.\n\n---\nMore."


def test_a_body_is_returned_as_it_was_written() -> None:
    body = "{baseDir} {{x}} $ARGUMENTS\n\n\tif a < b: !`id`\n\n=== UI (from ui) ==="

    document, problems = read(f"---\ndescription: D\n---\n\n{body}\n")

    assert document is not None
    assert document.body == body
    assert problems == ()


# --- what is repaired ---------------------------------------------------------


class Repair(NamedTuple):
    written: str
    understood: str


REPAIRS = {
    "an unquoted colon": Repair("Use when: a form is filled", "Use when: a form is filled"),
    "keys in the next lines": Repair(
        "\n  Use when: @a is there\n  asks", "Use when: @a is there asks"
    ),
    "several colons": Repair("a: b: c", "a: b: c"),
    "a colon in the next line": Repair("One\n  two: three", "One two: three"),
    "a folded block on one line": Repair(">- Fills forms", "Fills forms"),
    "a block of one sign": Repair("> Fills forms", "Fills forms"),
    "a literal block on one line": Repair("| Fills forms", "Fills forms"),
    "a block with an indentation": Repair("|2- Fills forms", "Fills forms"),
    "a block that goes on": Repair(">- Fills\n  forms: all", "Fills forms: all"),
    "a greater sign further on": Repair("a > b: c | d", "a > b: c | d"),
    "an at sign": Repair("@acme/forms in use", "@acme/forms in use"),
    "a star": Repair("*Fills* forms", "*Fills* forms"),
    "a template's braces": Repair("{{description}}", "{{description}}"),
    "brackets": Repair("[beta] Fills forms", "[beta] Fills forms"),
    "brackets at both ends": Repair("[beta] Fills [forms]", "[beta] Fills [forms]"),
    "a backtick": Repair("`pdf` fills forms", "`pdf` fills forms"),
    "a dash": Repair("- Fills forms", "- Fills forms"),
    "a percent sign": Repair("%d forms", "%d forms"),
    "quotes inside quotes": Repair('"Fills "all" forms"', 'Fills "all" forms'),
    "an apostrophe": Repair("'It's for forms'", "It's for forms"),
    "a quote that is never closed": Repair('"Fills forms', '"Fills forms'),
    "a tab": Repair("\tFills: forms", "Fills: forms"),
    "a C1 control character": Repair("Fills\x80 forms", "Fills forms"),
    "an escape": Repair("Fills \x1b[31mforms", "Fills [31mforms"),
    "NUL": Repair("Fills\0 forms", "Fills forms"),
    "an alias": Repair("&a [*a]", "&a [*a]"),
}


@pytest.mark.parametrize("why", REPAIRS)
def test_a_value_is_understood_in_spite_of(why: str) -> None:
    repair = REPAIRS[why]

    document, problems = read(described(repair.written))

    assert document is not None
    assert document.fields["description"] == repair.understood
    assert document.fields["name"] == "pdf"
    assert document.fields["license"] == "MIT"
    assert document.body == "Body."
    [problem] = problems
    assert (problem.level, problem.rule) == ("warning", "yaml")
    assert problem.reason.startswith("has a frontmatter that is no valid YAML: ")
    assert problem.reason.endswith("; it was repaired")
    assert "quote" in problem.hint


@pytest.mark.parametrize("why", REPAIRS)
def test_rules_of_ones_own_are_not_repaired(why: str) -> None:
    document, [problem] = read(described(REPAIRS[why].written), lenient=False)

    assert document is None
    assert (problem.level, problem.rule) == ("error", "yaml")
    assert not problem.reason.endswith("repaired")


@pytest.mark.parametrize(
    "front",
    ["", "\n\n", "\ufeff\n", "# Title\n\n", "<!-- A licence\nof two lines -->\n"],
    ids=["nothing", "empty lines", "a mark", "a title", "a comment"],
)
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_repair_names_the_line_of_the_file(front: str, ends: str) -> None:
    raw = front + "---\nname: pdf\n\nallowed-tools: a\ndescription: a: b\n---\n"
    line = raw[: raw.index("description")].count("\n") + 1

    _, problems = read(raw.replace("\n", ends))

    [problem] = [each for each in problems if each.rule == "yaml"]
    assert problem.line == line
    assert f"in line {line};" in problem.reason


def test_what_has_no_single_place_stands_in_line_one() -> None:
    _, [problem] = read("---\ndescription: D\na: *b\nb: &b c\n---\n")

    assert "it uses an alias" in problem.reason
    assert problem.line == 1


def test_lines_of_keys_are_those_of_the_file() -> None:
    for front, description in {"": "a", "\n\n# Title\n": "a: b", "\n": "a"}.items():
        report = ProblemList("SKILL.md")
        text = f"{front}---\nname: pdf\n\ndescription: {description}\n---\n"
        parse_document(text, report, lenient=True)

        above = front.count("\n")
        assert report.lines == {"name": 2 + above, "description": 4 + above}


@pytest.mark.parametrize(
    "metadata, understood",
    [
        ("{'a': {b: [c}", "{'a': {b: [c}"),
        ('{"vendor": {"emoji": "x", "requires": {"bins": ["jq"]}}', None),
        ("{tags: [a, b]}", {"tags": ["a", "b"]}),
        ("\n  tags: [a, @b]", {"tags": ["a", "@b"]}),
        ("\n  tags: a: b\n  other: c", {"tags": "a: b", "other": "c"}),
        ("\n  tags: [a, 'b', \"@c\", @d]", {"tags": ["a", "b", "@c", "@d"]}),
        (
            "\n  labels: [x]\n  triggers:\n    files: [a]\n    keywords: [@if, else]",
            {
                "labels": ["x"],
                "triggers": {"files": ["a"], "keywords": ["@if", "else"]},
            },
        ),
        ("\n\ttags: [a, @b]", {"tags": ["a", "@b"]}),
        ("\n\t- a\n\t- b", ["a", "b"]),
    ],
)
def test_a_broken_metadata_costs_only_what_is_broken(metadata: str, understood: object) -> None:
    text = f"---\ndescription: D\nmetadata: {metadata}\nlicense: MIT\n---\n"

    fields = read_fields(text)

    assert fields["description"] == "D"
    assert fields["license"] == "MIT"
    assert fields["metadata"] == understood or understood is None


@pytest.mark.parametrize(
    "value, understood",
    [
        ("\n  Use when: a form is filled", "Use when: a form is filled"),
        ("\n  - Fills forms\n  - Signs them", "- Fills forms - Signs them"),
        ("[a, b]", "[a, b]"),
        ("{a: b}", "{a: b}"),
        ("[beta]", "[beta]"),
    ],
)
@pytest.mark.parametrize("other", ["license: MIT", "license: a: b"])
def test_a_description_is_a_text_whatever_yaml_takes_it_for(
    value: str, understood: str, other: str
) -> None:
    document, [problem] = read(f"---\nname: pdf\ndescription: {value}\n{other}\n---\n")

    assert document is not None
    assert document.fields["description"] == understood
    assert document.fields["license"] == other.removeprefix("license: ")
    assert problem.level == "warning"
    assert problem.reason.endswith("; it was repaired")
    if problem.rule == "description":
        assert problem.line == 3


def test_for_rules_of_ones_own_a_description_is_what_yaml_says() -> None:
    document, problems = read("---\ndescription: [a]\n---\n", lenient=False)

    assert document is not None
    assert document.fields["description"] == ["a"]
    assert problems == ()


def test_a_repair_goes_only_as_deep_as_anybody_writes() -> None:
    steps = "".join(f"{'  ' * depth}a:\n" for depth in range(200))
    text = f"---\ndescription: D\n{steps}{'  ' * 200}x: *\n---\n"

    value = read_fields(text)["a"]

    depth = 0
    while isinstance(value, dict):
        value, depth = value["a"], depth + 1
    assert depth == 3
    assert value.startswith("a: a: ")


def test_a_key_that_is_repeated_counts_the_last_time() -> None:
    text = "---\ndescription: one\ntags: [a]\ndescription: two\n---\n"

    document, [problem] = read(text)

    assert document is not None
    assert document.fields["description"] == "two"
    assert (problem.level, problem.rule, problem.line) == (
        "warning",
        "duplicate-key",
        4,
    )
    assert problem.reason == ("has description twice in one place, so the last one is used")


def test_a_repeated_key_is_told_in_a_repaired_file_too() -> None:
    _, problems = read("---\ndescription: a: b\nname: x\nname: y\nname: z\n---\n")

    assert [(each.rule, each.line) for each in problems] == [
        ("yaml", 2),
        ("duplicate-key", 5),
    ]


def test_a_nested_key_that_is_repeated_is_told() -> None:
    _, [problem] = read("---\ndescription: D\nmetadata: {a: 1, a: 2}\n---\n")

    assert problem.rule == "duplicate-key"


# --- text in front ------------------------------------------------------------


@pytest.mark.parametrize(
    "front",
    [
        "# PDF",
        "<!-- Licensed to nobody\n     at all -->",
        "```yaml",
        "Some words.\n\nAnd more.",
        "x" * 1900,
    ],
)
def test_text_in_front_of_the_frontmatter_is_part_of_the_body(front: str) -> None:
    document, [problem] = read(f"{front}\n{described('D')}")

    assert document is not None
    assert document.fields["description"] == "D"
    assert document.body == f"{front}\n\nBody."
    assert (problem.level, problem.rule) == ("warning", "frontmatter")
    assert problem.reason == "has text in front of its frontmatter"


@pytest.mark.parametrize(
    "raw",
    [
        "x" * 2001 + "\n" + described("D"),
        "# Title\n\n---\n\nText.\n\n---\n",
        "# Title\n\n  ---\ndescription: D\n  ---\n",
        "--\ndescription: D\n--\n",
        "description: D\n",
        "",
        " \n\n",
    ],
)
def test_what_looks_like_one_further_down_is_none(raw: str) -> None:
    document, [problem] = read(raw)

    assert document == Document({}, raw.strip())
    assert (problem.level, problem.rule) == ("warning", "no-frontmatter")
    assert problem.reason == "has no frontmatter"
    assert "name: …" in problem.hint


def test_rules_of_ones_own_begin_with_their_frontmatter() -> None:
    document, [problem] = read(f"# Title\n{described('D')}", lenient=False)

    assert document is None
    assert problem.reason == "has no frontmatter"
    assert "keywords" in problem.hint


# --- what is no text ----------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_read_if_it_says_so(encoding: str) -> None:
    mark = "" if encoding == "utf-16" else "\ufeff"
    raw = (mark + described("Créer 認証")).encode(encoding)

    document, [problem] = read(raw)

    assert document is not None
    assert document.fields["description"] == "Créer 認証"
    assert (problem.level, problem.rule) == ("warning", "encoding")
    assert problem.reason == "is not UTF-8 text (byte 0), so it was guessed"


def test_the_old_encoding_of_western_editors_is_guessed() -> None:
    raw = described("Créer “forms”").encode("cp1252")

    document, [problem] = read(raw)

    assert document is not None
    assert document.fields["description"] == "Créer “forms”"
    assert problem.rule == "encoding"
    assert problem.reason.startswith("is not UTF-8 text (byte 29)")


@pytest.mark.parametrize(
    "raw",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"---\ndescription: D\n---\n\xff\0",
        b"\x7fELF\x02\x01\x01\0\xff",
    ],
)
def test_a_binary_file_is_no_text_in_any_encoding(raw: bytes) -> None:
    document, [problem] = read(raw)

    assert document is None
    assert (problem.level, problem.rule) == ("error", "encoding")


@pytest.mark.parametrize("raw", [described("é").encode("latin-1"), described("é").encode("utf-16")])
def test_for_rules_of_ones_own_nothing_is_guessed(raw: bytes) -> None:
    document, [problem] = read(raw, lenient=False)

    assert document is None
    assert (problem.level, problem.rule) == ("error", "encoding")
    assert problem.hint == "save the file as UTF-8"


def test_an_escape_that_yaml_allows_does_not_reach_a_terminal() -> None:
    text = '---\ndescription: "a\\e[2J\\x9bb"\nmetadata: {tags: ["c\\0d"]}\n---\n'

    document, [problem] = read(text)

    assert document is not None
    assert document.fields == {"description": "a[2Jb", "metadata": {"tags": ["cd"]}}
    assert problem.rule == "control-characters"


@pytest.mark.parametrize(
    "hidden", ["\u200b", "a\ufe0f\ufe01"[1:], "\u2060", "\u202e", "\U000e0041"]
)
def test_lists_and_texts_are_without_the_same_hidden_characters(hidden: str) -> None:
    head = f"description: For{hidden}ms\nmetadata: {{tags: [c{hidden}d]}}"

    document, [problem] = read(f"---\n{head}\n---\nFill{hidden} in.\n")

    assert document is not None
    assert document.fields == {"description": "Forms", "metadata": {"tags": ["cd"]}}
    assert document.body == "Fill in."
    assert (problem.rule, problem.line) == ("hidden-character", 2)


def test_a_hidden_character_of_the_text_alone_is_reported() -> None:
    document, [problem] = read("---\ndescription: D\n---\nFill\u200b in.\n")

    assert document is not None
    assert document.body == "Fill in."
    assert problem.rule == "hidden-character"


def test_no_message_repeats_a_control_character_or_a_whole_file() -> None:
    key = "\\e[2J" + "k" * 900
    _, problems = read(f'---\ndescription: D\n"{key}": 1\n"{key}": 2\n---\n')

    assert [problem.rule for problem in problems] == ["duplicate-key"]
    for problem in problems:
        assert problem.reason.isprintable()
        assert len(problem.reason) <= 300


# --- limits -------------------------------------------------------------------


@pytest.mark.parametrize(
    "block",
    [
        "#" * MAX_YAML_CHARACTERS,
        "a: b: c\n" * 100_000,
        "[" * 500_000,
        "\n" * MAX_YAML_CHARACTERS,
    ],
)
def test_a_frontmatter_that_is_too_long_is_not_even_repaired(block: str) -> None:
    document, [problem] = read(f"---\ndescription: D\n{block}\n---\n")

    assert document is None
    assert (problem.level, problem.rule) == ("error", "yaml")
    assert "longer than 65,536 characters" in problem.reason


BILLION_LAUGHS = "\n".join(
    ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
)


@pytest.mark.parametrize(
    "bomb",
    [
        BILLION_LAUGHS,
        "a: " + "[" * 60_000,
        "a: &a [*a]",
        "a: &a {<<: *a}",
        "".join(f"{' ' * n}a:\n" for n in range(300)),
        "a: " + "{a: " * 10_000,
        "- " * 30_000,
        "? " * 30_000,
    ],
    ids=["laughs", "lists", "itself", "merge", "steps", "flow", "items", "keys"],
)
def test_a_bomb_in_the_frontmatter_costs_no_more_than_its_own_length(bomb: str) -> None:
    document, problems = read(f"---\nname: pdf\n{bomb}\ndescription: D\n---\n")

    assert document is not None
    assert document.fields["description"] == "D"
    assert len(str(document.fields)) < MAX_YAML_CHARACTERS * 2
    assert "yaml" in {problem.rule for problem in problems}


def test_a_thousand_defects_are_told_with_fifty() -> None:
    keys = "".join(f"k{n}: 1\nk{n}: 2\n" for n in range(1000))

    _, problems = read(f"---\ndescription: D\n{keys}---\n")

    assert len(problems) == 50


# --- anything at all ----------------------------------------------------------

PIECES = st.sampled_from(
    [
        *("---\n", "---", "\n", "\r\n", "\ufeff", "description: ", "name: ", "D"),
        *("metadata:\n  ", "tags: ", "[", "]", "{", "}", ": ", "- ", "> ", "| ", "*a"),
        *(
            "&a ",
            "'",
            '"',
            "`",
            "@",
            "#",
            "\t",
            "\0",
            "\x80",
            "\x1b",
            "é",
            "認",
            "!!int ",
        ),
    ]
)


def is_document_or_error(raw: bytes) -> None:
    for lenient in (True, False):
        document, problems = read(raw, lenient=lenient)

        errors = [problem for problem in problems if problem.level == "error"]
        assert bool(errors) is (document is None)
        for problem in problems:
            assert problem.rule
            assert problem.hint
            assert problem.reason.isprintable()
            assert 1 <= problem.line <= raw.count(b"\n") + raw.count(b"\r") + 1


@given(st.binary(max_size=200))
@example(b"---\n\xff\n---\n")
@example(b"\xff\xfe-\0-\0-\0\n\0")
def test_any_bytes_are_a_document_or_a_reason(raw: bytes) -> None:
    is_document_or_error(raw)


@given(st.lists(PIECES, max_size=40).map("".join))
@example("---\n: \n---\n")
@example("---\n---\n---\n")
def test_any_pieces_of_a_frontmatter_are_a_document_or_a_reason(text: str) -> None:
    is_document_or_error(text.encode())
    is_document_or_error(f"---\ndescription: D\n{text}\n---\nBody".encode())


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
@example("a --- b")
@example("> a | b")
def test_whatever_stands_behind_a_key_the_other_keys_are_read(value: str) -> None:
    fields = read_fields(f"---\nname: pdf\ndescription: {value}\nlicense: MIT\n---\n")

    assert fields["name"] == "pdf"
    assert fields["license"] == "MIT"


def read_examples(value: Any) -> tuple[tuple[str, ...], list[str]]:
    report = ProblemList("x.md")
    return get_examples(value, report), [problem.rule for problem in report.problems]


@pytest.mark.parametrize(
    "value, examples",
    [
        (["add login", "sign  in\n"], ("add login", "sign in")),
        ([{"query": "add login"}, {"prompt": "sign in"}], ("add login", "sign in")),
        (["twice", {"query": "twice"}], ("twice",)),
        ("one\n\n  two  \n", ("one", "two")),
        ([], ()),
        ("", ()),
        (None, ()),
    ],
)
def test_examples_are_tasks_in_a_list_or_on_lines(value: Any, examples: tuple[str, ...]) -> None:
    assert read_examples(value) == (examples, [])


@pytest.mark.parametrize(
    "value", [["good", ""], ["good", {"q": "x"}], ["good", ["nested"]], ["good", {}]]
)
def test_an_example_without_a_text_is_reported_and_the_others_are_kept(
    value: Any,
) -> None:
    assert read_examples(value) == (("good",), ["examples-entry"])


def test_examples_that_are_no_list_are_reported() -> None:
    assert read_examples({"query": "x"}) == ((), ["examples-type"])


def read_package(**fields: Any) -> Skill:
    text = package_text(**fields)
    skill, problems = parse_package(text, file="pdf/SKILL.md", path=SkillPath("pdf"), files={})
    assert problems == ()
    assert skill is not None
    return skill


def test_both_formats_have_examples() -> None:
    rule, problems = parse_rule_file(
        skill_text(examples=["add login"]), file="x.md", directory=None
    )

    assert problems == ()
    assert rule is not None
    assert rule.examples == ("add login",)
    assert read_package(examples=["fill it in"]).examples == ("fill it in",)
    assert read_package(metadata={"examples": "a\nb"}).examples == ("a", "b")
    assert read_package().examples == ()
