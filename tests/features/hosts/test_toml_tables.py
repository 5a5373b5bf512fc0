"""A table is added, changed and taken out; everything else stays as it was written."""

import re

import pytest

from skills_mcp.features.hosts.config_edits import (
    UnparsableTextError,
    insert_toml_table,
    parse_toml_text,
    remove_toml_table,
)

ENTRY = {"command": "skills-mcp", "args": ["--repo", "x"], "env_vars": ["A"]}

SHAPES = {
    "other servers": """# mine
model = "x" # the best

[mcp_servers.other]
command = "a" # why
args = []

[mcp_servers.other.env]
A = "1"

[profiles.x]
a = 1
""",
    "no servers": 'model = "x" # the best\n',
    "nothing": "",
    "one table": '[mcp_servers]\nother = {command = "a"} # inline\n',
    "inline": 'mcp_servers = {other = {command = "a"}}\n',
    "in two places": "[mcp_servers.a]\nb = 1\n\n[x]\ny = 1\n\n[mcp_servers.c]\nd = 1\n",
    "dotted keys": 'mcp_servers.other.command = "a"\nmodel = "x" # the best\n',
    "a comment above the next table": "[mcp_servers.a]\nb = 1\n\n# of x\n[x]\ny = 1\n",
    "line ends of Windows": "[mcp_servers.a]\r\nb = 1\r\n\r\n[x]\r\ny = 1\r\n",
    "a byte order mark": "\ufeff# mine\nmodel = 1\n",
}


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_what_was_inserted_can_be_taken_out_without_a_trace(text: str) -> None:
    inserted = insert_toml_table(text, "mcp_servers", "skills", ENTRY)

    known, values = parse_toml_text(text), parse_toml_text(inserted)
    assert values["mcp_servers"].pop("skills") == ENTRY
    assert values == {"mcp_servers": {}, **known}
    assert not ("\r" in text and re.search("[^\r]\n", inserted))
    assert remove_toml_table(inserted, "mcp_servers", "skills") == text


def test_an_entry_is_changed_where_it_stands() -> None:
    text = '[mcp_servers.skills] # ours\ncommand = "old" # a\nargs = []\nurl = "b"\n'

    changed = insert_toml_table(text, "mcp_servers", "skills", ENTRY)

    assert parse_toml_text(changed)["mcp_servers"]["skills"] == ENTRY
    assert "[mcp_servers.skills] # ours\ncommand = " in changed


def test_the_tables_of_an_entry_are_changed_where_they_stand() -> None:
    text = """mcp_servers.skills.command = "old"
mcp_servers.skills.env.A = "1"
mcp_servers.skills.env.B = "1" # b
model = "x"
"""

    changed = insert_toml_table(text, "mcp_servers", "skills", ENTRY | {"env": {"B": "1"}})

    assert parse_toml_text(changed) == {
        "mcp_servers": {"skills": ENTRY | {"env": {"B": "1"}}},
        "model": "x",
    }
    assert 'env.B = "1" # b' in changed


@pytest.mark.parametrize("text", ["a = ", "mcp_servers = 1", "[a]\n[a]\n"])
def test_a_text_that_cannot_be_edited_is_refused(text: str) -> None:
    with pytest.raises(UnparsableTextError):
        insert_toml_table(text, "mcp_servers", "skills", ENTRY)


def test_a_table_that_is_not_there_needs_no_change() -> None:
    assert remove_toml_table("a = 1", "mcp_servers", "skills") == "a = 1"
