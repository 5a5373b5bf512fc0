"""Rendering of a reply as text blocks."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_types import CallToolResult, TextContent

from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.server.known_clients import ReplyRules
from skills_mcp.server.replies import (
    Reply,
    error_reply,
    json_length,
    take_within_budget,
)
from skills_mcp.server.text_parts import split_markdown

_MIN_SHARE = 8  # of a reply: what lists have beside a text that is as long as itself
_COUNT_CHARACTERS = 40  # characters of `"scriptFiles_count": 5000, `

_COMMIT_DIGITS = 12  # digits, as Git shows them

# Of a text with a block of its own, a model needs no more than how to use it.
_OMITTED_KEYS = frozenset(
    {
        "category",
        "description",
        "encoding",
        "file_inventory",
        "inherited_commits",
        "matched_keywords",
        "path",
        "scope",
        "score",
        "sha256",
        "size_bytes",
        "source_path",
    }
)
_ASSET_LISTS = ("assets", "inherited_assets")
_SCRIPT_LISTS = ("scripts", "inherited_scripts")

_MORE_HINT = "This text has more: call again with part set to next_part before you act."

# What a later part repeats, so that it can be told whose it is.
_REPEATED = ("skill_path", "name", "file", "digest")


def render_tool_result(reply: Reply, rules: ReplyRules) -> CallToolResult:
    """Render a reply as MCP tool result.

    Without `structuredContent`: hosts show it instead of the text.
    """
    try:
        texts = _render_texts(reply, rules)
    except InvalidArgumentsError as error:
        reply = error_reply(error)
        texts = _render_texts(reply, rules)
    blocks = [TextContent(type="text", text=text) for text in texts]
    return CallToolResult(content=list(blocks), is_error=reply.is_error)


def _render_texts(reply: Reply, rules: ReplyRules) -> list[str]:
    data = _select_part(reply, rules)
    has_block = rules.format == "markdown" and not reply.is_inline
    if not reply.prose or not has_block or reply.prose not in data:
        return [_to_json(truncate_lists(data, reply, rules.max_characters))]
    text = data.pop(reply.prose)
    short = truncate_lists(_shorten(data), reply, rules.max_characters)
    return [json.dumps(short, ensure_ascii=False, separators=(",", ":")), text]


def _select_part(reply: Reply, rules: ReplyRules) -> dict[str, Any]:
    """Data with the requested part of the text."""
    data = dict(reply.data)
    text = data.get(reply.prose) if reply.prose else None
    parts: Sequence[str] = ("",)
    if text and rules.text_bytes is not None:
        parts = split_markdown(text, rules.text_bytes, rules.measure)
    if reply.part > len(parts):
        count = "1 part" if len(parts) == 1 else f"{len(parts)} parts"
        raise InvalidArgumentsError(
            f"part: this text has {count}. Leave part out to begin with the first."
        )
    if len(parts) == 1 or not reply.prose:
        return data
    if reply.part > 1:
        data = {key: data[key] for key in _REPEATED if key in data}
    navigation: dict[str, Any] = {"part": reply.part, "parts": len(parts)}
    if reply.part < len(parts):
        navigation |= {"next_part": reply.part + 1, "message": _MORE_HINT}
    return navigation | data | {reply.prose: parts[reply.part - 1]}


def _shorten(data: Mapping[str, Any]) -> dict[str, Any]:
    """Minimal metadata of a text: names, and usage of scripts.

    Inherited files are fetched and run like the skill's own.
    """
    fields = {
        key: value
        for key, value in data.items()
        if key not in _OMITTED_KEYS or (key == "path" and data.get("name"))
    }
    if fields.get("commit"):
        fields["commit"] = fields["commit"][:_COMMIT_DIGITS]
    assets = [entry for key in _ASSET_LISTS for entry in fields.pop(key, ())]
    scripts = [entry for key in _SCRIPT_LISTS for entry in fields.pop(key, ())]
    for_server = [entry for entry in scripts if entry["execution"] == "server"]
    fields |= {
        "assets": [entry["file"] for entry in assets],
        "scripts": [_usage(entry) for entry in scripts if entry not in for_server],
        "run_script": list(map(_usage, for_server)),
    }
    return {k: v for k, v in fields.items() if v not in (None, [], False)}


def _usage(script: Mapping[str, Any]) -> str:
    names = (
        argument["name"] if argument["required"] else f"[{argument['name']}]"
        for argument in script["args"]
    )
    return " ".join((script["file"], *names))


def truncate_lists(data: dict[str, Any], reply: Reply, max_characters: int) -> dict[str, Any]:
    """Truncate lists until the reply fits into `max_characters`.

    At least an eighth of the limit remains for lists, even with a text of maximal
    length.
    """
    if json_length(data) <= max_characters:
        return data
    data = {k: dict(v) if isinstance(v, dict) else v for k, v in data.items()}
    lists = [found for key in reply.lists if (found := _find_list(data, key))]
    sizes = {n: json_length(inner[key]) for n, (inner, key) in enumerate(lists)}
    budget = max_characters - json_length(data) + sum(sizes.values())
    budget = max(budget, max_characters // _MIN_SHARE) - (1 + len(lists)) * _COUNT_CHARACTERS
    for done, number in enumerate(sorted(sizes, key=sizes.__getitem__)):
        inner, key = lists[number]
        fitting = take_within_budget(inner[key], budget // (len(lists) - done))
        if len(fitting) < len(inner[key]):
            inner.setdefault(f"{key}_count", len(inner[key]))
            inner[key] = fitting
            data |= {reply.cut_key: True} if reply.cut_key else {}
        budget -= json_length(fitting)
    return data


def _find_list(data: dict[str, Any], key: str) -> tuple[dict[str, Any], str] | None:
    above, _, key = key.rpartition(".")
    inner = data.get(above, {}) if above else data
    return (inner, key) if key in inner else None


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
