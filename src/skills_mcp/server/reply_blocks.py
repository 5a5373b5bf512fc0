"""Writes a reply as the text blocks that a host gets.

Rule: what a host would cut off comes in parts, and the parts of a text are all of it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_types import CallToolResult, TextContent

from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.server.known_clients import ReplyRules
from skills_mcp.server.replies import Reply, measure, refused, take_fitting
from skills_mcp.server.text_parts import split_text

_LEAST_PART = 8  # of a reply: what lists have beside a text that is as long as itself
_COUNT = 40  # characters of `"scriptFiles_count": 5000, `

_SHOWN_COMMIT = 12  # digits, as Git shows them

# Of a text with a block of its own, a model needs no more than how to use it.
_LEFT_OUT = frozenset(
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

_MORE = "This text has more: call again with part set to next_part before you act."

# What a later part repeats, so that it can be told whose it is.
_REPEATED = ("skill_path", "name", "file", "digest")


def render(reply: Reply, rules: ReplyRules) -> CallToolResult:
    """Return the reply as a host gets it.

    Without `structuredContent`, because hosts show it instead of the text.
    """
    try:
        texts = _write(reply, rules)
    except InvalidArgumentsError as error:
        reply = refused(error)
        texts = _write(reply, rules)
    blocks = [TextContent(type="text", text=text) for text in texts]
    return CallToolResult(content=list(blocks), is_error=reply.is_error)


def _write(reply: Reply, rules: ReplyRules) -> list[str]:
    """Return the texts of the blocks.

    Raises:
        InvalidArgumentsError: There is no such part.
    """
    data = _take_part(reply, rules)
    has_block = rules.format == "markdown" and not reply.is_inline
    if not reply.prose or not has_block or reply.prose not in data:
        return [_to_json(fit(data, reply, rules.max_characters))]
    text = data.pop(reply.prose)
    short = fit(_shorten(data), reply, rules.max_characters)
    return [json.dumps(short, ensure_ascii=False, separators=(",", ":")), text]


def _take_part(reply: Reply, rules: ReplyRules) -> dict[str, Any]:
    """Return the data with that part of the text which was asked for.

    Raises:
        InvalidArgumentsError: There is no such part.
    """
    data = dict(reply.data)
    text = data.get(reply.prose) if reply.prose else None
    parts: Sequence[str] = ("",)
    if text and rules.text_bytes is not None:
        parts = split_text(text, rules.text_bytes, rules.measure)
    if reply.part > len(parts):
        there = "1 part" if len(parts) == 1 else f"{len(parts)} parts"
        raise InvalidArgumentsError(
            f"part: this text has {there}. Leave part out to begin with the first."
        )
    if len(parts) == 1 or not reply.prose:
        return data
    if reply.part > 1:
        data = {key: data[key] for key in _REPEATED if key in data}
    way: dict[str, Any] = {"part": reply.part, "parts": len(parts)}
    if reply.part < len(parts):
        way |= {"next_part": reply.part + 1, "message": _MORE}
    return way | data | {reply.prose: parts[reply.part - 1]}


def _shorten(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model needs beside a text: names, and how to call scripts.

    Inherited files are fetched and run as those of the skill are.
    """
    kept = {
        key: value
        for key, value in data.items()
        if key not in _LEFT_OUT or (key == "path" and data.get("name"))
    }
    if kept.get("commit"):
        kept["commit"] = kept["commit"][:_SHOWN_COMMIT]
    assets = [each for key in _ASSET_LISTS for each in kept.pop(key, ())]
    scripts = [each for key in _SCRIPT_LISTS for each in kept.pop(key, ())]
    for_server = [each for each in scripts if each["execution"] == "server"]
    kept |= {
        "assets": [each["file"] for each in assets],
        "scripts": [_usage(each) for each in scripts if each not in for_server],
        "run_script": list(map(_usage, for_server)),
    }
    return {k: v for k, v in kept.items() if v not in (None, [], False)}


def _usage(script: Mapping[str, Any]) -> str:
    names = (
        each["name"] if each["required"] else f"[{each['name']}]"
        for each in script["args"]
    )
    return " ".join((script["file"], *names))


def fit(data: dict[str, Any], reply: Reply, max_characters: int) -> dict[str, Any]:
    """Return the data of a reply, with lists cut so that all of it has room.

    Beside a text that takes all the room, an eighth of it is left for the lists.
    """
    if measure(data) <= max_characters:
        return data
    data = {k: dict(v) if isinstance(v, dict) else v for k, v in data.items()}
    places = [place for key in reply.lists if (place := _find_list(data, key))]
    sizes = {n: measure(inner[key]) for n, (inner, key) in enumerate(places)}
    room = max_characters - measure(data) + sum(sizes.values())
    room = max(room, max_characters // _LEAST_PART) - (1 + len(places)) * _COUNT
    for done, number in enumerate(sorted(sizes, key=sizes.__getitem__)):
        inner, key = places[number]
        kept = take_fitting(inner[key], room // (len(places) - done))
        if len(kept) < len(inner[key]):
            inner.setdefault(f"{key}_count", len(inner[key]))
            inner[key] = kept
            data |= {reply.cut_key: True} if reply.cut_key else {}
        room -= measure(kept)
    return data


def _find_list(data: dict[str, Any], key: str) -> tuple[dict[str, Any], str] | None:
    above, _, key = key.rpartition(".")
    inner = data.get(above, {}) if above else data
    return (inner, key) if key in inner else None


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
