"""YAML from strangers: every trap ends in one kind of error."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skills_mcp.text.safe_yaml import (
    MAX_YAML_CHARACTERS,
    YamlError,
    parse_yaml,
    parse_yaml_strings,
)


def texts_of(text: str) -> Any:
    return parse_yaml_strings(text).value


PARSERS = pytest.mark.parametrize("parse", [parse_yaml, texts_of])

YAMLISH = st.lists(
    st.sampled_from([*"ab01:-[]{}&*!|>'\"#%@`,?~. \n\t", "<<", "!!", "---\n", "é"]),
    max_size=60,
).map("".join)

BILLION_LAUGHS = "\n".join(
    ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
)


def test_values_have_the_types_that_yaml_gives_them() -> None:
    text = "a: 1\nb: 0.5\nc: true\nd:\ne: text"

    values = parse_yaml(text)

    assert values == {"a": 1, "b": 0.5, "c": True, "d": None, "e": "text"}


def test_texts_stay_what_was_written() -> None:
    text = "a: 007\nb: 1.10\nc: no\nd:\ne: 2026-01-31\nf: [on, 0x1F, ~]"

    values = texts_of(text)

    assert values == {
        "a": "007",
        "b": "1.10",
        "c": "no",
        "d": "",
        "e": "2026-01-31",
        "f": ["on", "0x1F", "~"],
    }


def test_texts_say_where_the_outermost_keys_stand() -> None:
    text = "\na: 1\n# a comment\nb:\n  c: 2\n  d: |\n    a: 3\ne: 4"

    texts = parse_yaml_strings(text)

    assert texts.lines == {"a": 1, "b": 3, "e": 7}


@pytest.mark.parametrize("text", ["", "just text", "[a, b]", "- a: 1"])
def test_what_is_no_mapping_has_no_keys(text: str) -> None:
    texts = parse_yaml_strings(text)

    assert texts.lines == {}
    assert texts.repeated == ()


@pytest.mark.parametrize(
    "text, repeated, value",
    [
        ("a: 1\nb: 2\na: 3\na: 4", ("a",), {"a": "4", "b": "2"}),
        ("b: 1\na: 2\nb: 3\na: 4", ("a", "b"), {"b": "3", "a": "4"}),
        ("m:\n  x: 1\n  x: 2", ("x",), {"m": {"x": "2"}}),
        ("[{x: 1, x: 2}]", ("x",), [{"x": "2"}]),
        ("a: 1\nm: {a: 2}", (), {"a": "1", "m": {"a": "2"}}),
    ],
)
def test_a_key_that_a_mapping_has_twice_is_told_and_the_last_one_counts(
    text: str, repeated: tuple[str, ...], value: Any
) -> None:
    texts = parse_yaml_strings(text)

    assert texts.value == value
    assert texts.repeated == repeated


@PARSERS
@pytest.mark.parametrize(
    "text, reason",
    [
        ("a: &x 1\nb: *x", "it uses an alias"),
        ("a: &x [*x]", "it uses an alias"),
        (BILLION_LAUGHS, "it uses an alias"),
        ("a: " + "x" * MAX_YAML_CHARACTERS, "it is longer than 65,536 characters"),
        ("a: [", "in line 2"),
        ("a: 1\nb: 'open\n", "in line 3"),
        ("a: b: c", "mapping values are not allowed"),
        ("a: 1\n--- \nb: 2", "document"),
        ("a: \x00", "not allowed"),
        ("a: \ud800", "surrogates not allowed"),
        ("? [a]\n: b", "unhashable key"),
    ],
)
def test_what_we_do_not_accept_is_one_kind_of_error(parse: Any, text: str, reason: str) -> None:
    with pytest.raises(YamlError) as caught:
        parse(text)

    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@PARSERS
@pytest.mark.parametrize(
    "text, shape",
    [
        ("[" * 60_000, "lists on one line, never closed"),
        ("[" * 30_000 + "]" * 30_000, "lists on one line"),
        ("{a: " * 10_000 + "}" * 10_000, "mappings on one line"),
        ("- " * 30_000, "lists in block style"),
        ("? " * 30_000, "keys that are mappings"),
        ("".join(f"{' ' * n}a:\n" for n in range(300)), "mappings in block style"),
    ],
)
def test_deep_nesting_is_refused_before_the_loader_recurses(
    parse: Any, text: str, shape: str
) -> None:
    # The loader in C would end the whole process, so a wrong answer is no failure
    # of this test: it is the end of the run.
    with pytest.raises(YamlError, match="nested deeper than 32 levels"):
        parse(text)

    assert shape


@PARSERS
def test_nesting_as_deep_as_allowed_is_read(parse: Any) -> None:
    value = parse("[" * 32 + "]" * 32)

    for _ in range(31):
        [value] = value
    assert value == []


@PARSERS
def test_a_long_flat_document_is_not_mistaken_for_a_deep_one(parse: Any) -> None:
    text = "\n".join(f"key-{number}: [a, b]" for number in range(1000))

    assert len(parse(text)) == 1000


@PARSERS
def test_a_star_that_is_no_alias_is_text(parse: Any) -> None:
    assert parse("a: '*x'\nb: 2 * 3") == {"a": "*x", "b": "2 * 3"}


@pytest.mark.parametrize(
    "text",
    [
        "a: !!bool perhaps",
        "a: !!int ''",
        "a: !!int _",
        "a: !!float ''",
        "a: !!timestamp soon",
        "a: !!binary x",
        "a: !!omap x",
        "a: !!python/object/apply:os.system [id]",
        "a: !unknown x",
        "a: 2026-13-01",
        "a: 2026-02-30",
        "a: " + "9" * 5000,
    ],
)
def test_a_value_that_its_tag_does_not_suit_is_the_same_kind_of_error(
    text: str,
) -> None:
    with pytest.raises(YamlError):
        parse_yaml(text)


@pytest.mark.parametrize("tag", ["!!set", "!ours", "!!python/object/apply:os.system"])
def test_a_tag_of_a_frontmatter_is_as_if_it_were_not_there(tag: str) -> None:
    assert parse_yaml_strings(f"a: {tag} {{b: c}}").value == {"a": {"b": "c"}}


@given(YAMLISH | st.text(max_size=80))
@example("a: !!set {b, c}")
@example("<<: x")
@example("0: !!int 0_")
def test_any_text_is_a_document_or_a_yaml_error(text: str) -> None:
    for parse in (parse_yaml, parse_yaml_strings):
        with suppress(YamlError):
            parse(text)


@given(YAMLISH)
def test_texts_hold_nothing_but_text_lists_and_mappings(text: str) -> None:
    try:
        value = texts_of(text)
    except YamlError:
        return

    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending += [*item.keys(), *item.values()]
        elif isinstance(item, list):
            pending += item
        else:
            assert isinstance(item, str | None)
