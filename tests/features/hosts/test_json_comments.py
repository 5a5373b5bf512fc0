"""An edit touches one member, and taking it out again restores the text."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_mcp.features.hosts.config_edits import (
    UnparsableTextError,
    insert_json_member,
    parse_json_text,
    remove_json_member,
)

ENTRY = {"command": "skills-mcp", "args": ["--repo", "x"], "env": {"A": "${A}"}}

SHAPES = {
    "a file of VS Code": """{
  // What the team uses
  "inputs": [],
  "servers": {
    "other": {
      "command": "npx", // from npm
      "args": ["-y", "other"], /* two
      lines */
    }, // the last one
  },
}
""",
    "one line": '{"servers": {"other": {"url": "https://a//b"}}}',
    "tabs": '{\n\t"servers": {\n\t\t"a": {\n\t\t\t"b": 1\n\t\t}\n\t}\n}',
    "line ends of Windows": '{\r\n  "servers": {\r\n    "a": 1\r\n  }\r\n}\r\n',
    "a byte order mark": '\ufeff{\n  "servers": {\n    "a": 1\n  }\n}\n',
    "a byte order mark in a name": '{\n  "servers": {\n    "\ufeff": 1\n  }\n}\n',
    "no section": '{\n  "theme": "dark", // mine\n  "n": [1, 2]\n}\n',
    "no section, a last comma": '{\n  "theme": "dark", // mine\n}\n',
    "nothing": "{}",
    "a comment in an empty section": '{\n  "servers": {\n    // none yet\n  }\n}\n',
    "a string like a comment": '{\n  "servers": {\n    "a": "// \\" , } "\n  }\n}\n',
    "a section twice": '{"servers": {"a": 1}, "servers": {"b": 2}}',
}


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_what_was_inserted_can_be_taken_out_without_a_trace(text: str) -> None:
    inserted = insert_json_member(text, ["servers", "skills"], ENTRY)

    assert parse_json_text(inserted)["servers"]["skills"] == ENTRY
    assert remove_json_member(inserted, ["servers", "skills"]) == text


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_everything_else_stays_as_it_was_written(text: str) -> None:
    inserted = insert_json_member(text, ["servers", "skills"], ENTRY)

    kept = re.findall(r"//.*|/\*.*?\*/|\"[^\"]*\"", text)
    assert [each for each in kept if each not in inserted] == []
    without = parse_json_text(inserted)
    del without["servers"]["skills"]
    assert {k: v for k, v in without.items() if v} == {
        k: v for k, v in parse_json_text(text).items() if v
    }


def test_an_entry_is_replaced_where_it_stands() -> None:
    text = '{\n  "servers": {\n    "skills": {"a": 1}, // ours\n    "b": 2\n  }\n}\n'

    replaced = insert_json_member(text, ["servers", "skills"], {"c": [1]})

    assert replaced == (
        '{\n  "servers": {\n    "skills": {\n      "c": [\n        1\n      ]\n'
        '    }, // ours\n    "b": 2\n  }\n}\n'
    )
    assert parse_json_text(remove_json_member(replaced, ["servers", "skills"])) == {
        "servers": {"b": 2}
    }


def test_a_member_between_others_is_taken_out() -> None:
    text = '{\n  "s": {\n    "a": 1,\n    "b": {"x": [1,]}, // b\n    "c": 3\n  }\n}'

    assert remove_json_member(text, ["s", "b"]) == (
        '{\n  "s": {\n    "a": 1, // b\n    "c": 3\n  }\n}'
    )
    assert remove_json_member('{"a": 1, "b": 2, "c": 3}', ["b"]) == '{"a": 1, "c": 3}'
    assert remove_json_member('{"a": 1, "b": 2}', ["a"]) == '{"b": 2}'
    assert remove_json_member('{"a": 1}', ["b"]) == '{"a": 1}'


def test_an_empty_file_gets_an_object() -> None:
    assert insert_json_member("", ["a", "b"], 1) == '{\n  "a": {\n    "b": 1\n  }\n}\n'
    assert insert_json_member("// mine\n", ["a"], 1) == '// mine\n{\n  "a": 1\n}\n'


@pytest.mark.parametrize(
    "text", ["[1]", "{", '{"a" 1}', "{'a': 1}", '{"a": 1} {', '{"s": 1}', '{"s": []}']
)
def test_a_text_that_cannot_be_edited_is_refused(text: str) -> None:
    with pytest.raises(UnparsableTextError):
        insert_json_member(text, ["s", "a"], 1)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
comments = st.sampled_from(["", " // c\n", " /* d */ ", "\n", "  ", "/* , } */"])


@given(
    document=st.dictionaries(st.text(max_size=4), values, max_size=4),
    servers=st.dictionaries(st.text(max_size=4), values, min_size=1, max_size=3),
    indent=st.sampled_from([None, 2, 4, "\t"]),
    data=st.data(),
)
def test_no_comment_and_no_spacing_is_lost(
    document: dict[str, Any], servers: dict[str, Any], indent: Any, data: st.DataObject
) -> None:
    servers.pop("skills", None)
    document["servers"] = servers or {"a": 1}
    written = json.dumps(document, indent=indent, ensure_ascii=False)
    pieces = re.findall(r'"(?:[^"\\]|\\.)*"|[^"]', written)
    text = "".join(piece + (data.draw(comments) if piece in "{}[],:" else "") for piece in pieces)

    inserted = insert_json_member(text, ["servers", "skills"], ENTRY)

    assert parse_json_text(inserted)["servers"] == {
        **document["servers"],
        "skills": ENTRY,
    }
    assert parse_json_text(remove_json_member(inserted, ["servers", "skills"])) == document
    assert sorted(remove_json_member(inserted, ["servers", "skills"])) == sorted(text)
