"""Splitting of long Markdown texts."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

from mcp_types import CallToolResult, TextContent

from skills_mcp.config.sections import Responses
from skills_mcp.errors import InvalidArgumentsError
from skills_mcp.server.replies import (
    Reply,
    error_reply,
    json_length,
    take_within_budget,
)

# Where a piece begins, from the best place for a cut to the worst.
_Border = Literal[0, 1, 2, 3]
_HEADING: _Border = 0
_BLOCK: _Border = 1
_LINE: _Border = 2
_INSIDE: _Border = 3

# How full a part has to be for a cut there; at a worse place it would be fuller.
_MIN_FILL: Sequence[tuple[_Border, float]] = (
    (_HEADING, 0.5),
    (_BLOCK, 0.25),
    (_LINE, 0.0),
)

_LINES = re.compile(r"[^\n]*\n|[^\n]+")


def split_markdown(text: str, limit: int, measure: Callable[[str], int]) -> tuple[str, ...]:
    """Split Markdown into parts, at headings if possible.

    The concatenated parts equal the text, byte for byte. A part measures at most
    `limit`,
    but has at least one character.
    """
    if measure(text) <= limit:
        return (text,)
    pieces = list(_split_lines(text, limit, measure))
    ends = list(accumulate(measure(piece) for piece, _ in pieces))
    borders = [border for _, border in pieces]
    parts, begin = [], 0
    while begin < len(pieces):
        end = _find_end(ends, borders, begin, limit)
        parts.append("".join(piece for piece, _ in pieces[begin:end]))
        begin = end
    return tuple(parts)


def _find_end(ends: Sequence[int], borders: Sequence[_Border], begin: int, limit: int) -> int:
    used = ends[begin - 1] if begin else 0
    last = begin + 1
    while last < len(ends) and ends[last] - used <= limit:
        last += 1
    if last == len(ends):
        return last
    for border, share in _MIN_FILL:
        for index in range(last, begin, -1):
            if ends[index - 1] - used < limit * share:
                break
            if borders[index] <= border:
                return index
    return last


def _split_lines(
    text: str, limit: int, measure: Callable[[str], int]
) -> Iterator[tuple[str, _Border]]:
    """Yield lines with the borders before them; overlong lines in pieces."""
    starts = _find_blocks(text)
    for number, line in enumerate(_LINES.findall(text)):
        border = starts.get(number, _LINE)
        while measure(line) > limit and len(line) > 1:
            size = _fitting_length(line, limit, measure)
            yield line[:size], border
            line, border = line[size:], _INSIDE  # noqa: PLW2901 - its rest
        yield line, border


def _fitting_length(line: str, limit: int, measure: Callable[[str], int]) -> int:
    """Longest prefix of a line within the limit, at least one character (bisection)."""
    low, high = 1, len(line)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(line[:middle]) <= limit else (low, middle - 1)
    return low


def _find_blocks(text: str) -> dict[int, _Border]:
    from markdown_it import MarkdownIt

    found: dict[int, _Border] = {}
    for token in MarkdownIt("commonmark").parse(text):
        if token.level == 0 and token.map and token.nesting >= 0:
            kind = _HEADING if token.type == "heading_open" else _BLOCK
            found[token.map[0]] = kind
    return found


ReplyFormat = Literal["json", "markdown"]

# Beside a text: files, commit, and how to go on.
_METADATA_CHARACTERS = 4_000


@dataclass(frozen=True, slots=True)
class KnownClient:
    """A client that truncates or escapes long replies."""

    name: str
    """Prefix of its `clientInfo.name`."""
    text_bytes: int
    text_lines: int | None = None
    """Maximum number of lines, if the client counts them."""


KNOWN_CLIENTS = (
    KnownClient("codex-mcp-client", 30_000),
    KnownClient("gemini-cli-mcp-client", 34_000),
    KnownClient("opencode", 44_000, 1_900),
    KnownClient("copilot-cli", 14_000),
)
"""Each below its measured limit, with a reserve for the metadata."""


@dataclass(frozen=True, slots=True)
class ReplyRules:
    """Format and limits of the replies of one call."""

    format: ReplyFormat
    max_characters: int
    text_bytes: int | None = None
    """Of one part of a text, in UTF-8; None: never split."""
    text_lines: int | None = None

    def measure(self, text: str) -> int:
        """Share of `text_bytes` used by a text."""
        is_escaped = self.format == "json"
        written = json.dumps(text, ensure_ascii=False) if is_escaped else text
        size = len(written.encode("utf-8", "surrogatepass"))
        if self.text_bytes is None or self.text_lines is None:
            return size
        line = self.text_bytes // self.text_lines
        return max(size, line * text.count("\n"))


_RULES: ContextVar[ReplyRules] = ContextVar("reply_rules")


def derive_rules(client: str, responses: Responses) -> ReplyRules:
    """Reply rules for a client.

    Args:
        client: `clientInfo.name`, empty if unknown.
        responses: The settings; `auto` leaves the format to the table.
    """
    found = next(
        (client_limits for client_limits in KNOWN_CLIENTS if client.startswith(client_limits.name)),
        None,
    )
    if found is None:
        style: ReplyFormat = "markdown" if responses.format == "markdown" else "json"
        return ReplyRules(style, responses.max_characters)
    return ReplyRules(
        "json" if responses.format == "json" else "markdown",
        min(responses.max_characters, found.text_bytes + _METADATA_CHARACTERS),
        found.text_bytes,
        found.text_lines,
    )


@contextmanager
def use_reply_rules(rules: ReplyRules) -> Iterator[None]:
    """Set the rules for `current_rules` in the block and its threads."""
    token = _RULES.set(rules)
    try:
        yield
    finally:
        _RULES.reset(token)


def current_rules() -> ReplyRules:
    """Reply rules of the current call.

    Raises:
        LookupError: No call is being answered: a defect of this program.
    """
    return _RULES.get()


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
