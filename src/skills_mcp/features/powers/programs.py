"""Programs in the languages of scripts, reduced to calls and variables.

Rule: a program is parsed, never run, and each parse is linear in its length.
"""

import ast
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Query

_MAX_WORDS = 200  # of one command


class Call(NamedTuple):
    """A call of a function, or a command with its words."""

    name: str
    words: tuple[str, ...]
    line: int
    is_command: bool = False
    feeds: str = ""
    """The command that reads its output."""
    is_fed: bool = False
    """Whether it reads the output of another."""


class ReadVariable(NamedTuple):
    """A read of an environment variable."""

    name: str
    line: int


Node_ = Call | ReadVariable
"""What a program consists of, as far as powers need it."""


def parse_python(source: str) -> Iterator[Node_] | None:
    """None if it is no Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an escape in the text of a stranger
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    return _walk_python(tree)


def _walk_python(tree: ast.AST) -> Iterator[Node_]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            words = tuple(_python_words(node))
            name = _dotted(node.func)
            yield Call(name, words, node.lineno)
            if name.rpartition(".")[2] in {"getenv", "get"} and "env" in name and words:
                yield ReadVariable(words[0], node.lineno)
        elif (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Constant)
            and _dotted(node.value).endswith("environ")
        ):
            yield ReadVariable(str(node.slice.value), node.lineno)


def _python_words(call: ast.Call) -> Iterator[str]:
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        nested = argument.elts if isinstance(argument, ast.List | ast.Tuple) else [argument]
        for node in nested:
            if isinstance(node, ast.Constant):
                yield str(node.value)
            elif isinstance(node, ast.JoinedStr):
                yield "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "…"
                    for part in node.values
                )
            elif dotted := _dotted(node):
                yield dotted
    yield from (f"{keyword.arg}=" for keyword in call.keywords if keyword.arg)


def _dotted(node: ast.AST) -> str:
    names: list[str] = []
    while isinstance(node, ast.Attribute | ast.Call):
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        else:
            node = node.func
    if isinstance(node, ast.Name):
        names.append(node.id)
    return ".".join(reversed(names))


def parse_shell(source: str) -> Iterator[Node_]:
    return _read_nodes("shell", source, MAX_SHELL_PART, _READ_SHELL)


def parse_javascript(source: str) -> Iterator[Node_]:
    return _read_nodes("javascript", source, 2 * MAX_SHELL_PART, _READ_JAVASCRIPT)


Reader = Callable[["Node"], Iterator[Node_]]


MAX_SHELL_PART = 8_192  # characters: a text that is no program may take quadratic time


def _read_nodes(
    language: str, source: str, max_part: int, readers: Mapping[str, Reader]
) -> Iterator[Node_]:
    """Parse a program in parts, each up to the end of a line if there is one."""
    from tree_sitter import QueryCursor

    parser, query = _open_parser(language, tuple(readers))
    longest = f".{{1,{max_part}}}"
    line = 0
    for text in re.findall(rf"(?s){longest}(?:(?<!\\)\n|\Z)|{longest}", source):
        root = parser.parse(text.encode("utf-8", "replace")).root_node
        found = QueryCursor(query).captures(root).get("node", ())
        for node in sorted(found, key=lambda node: (node.start_byte, -node.end_byte)):
            for each in readers[node.type](node):
                yield each._replace(line=each.line + line)
        line += text.count("\n")


@cache
def _open_parser(language: str, kinds: tuple[str, ...]) -> "tuple[Parser, Query]":
    import tree_sitter

    if language == "shell":
        import tree_sitter_bash as grammar
    else:
        import tree_sitter_javascript as grammar  # type: ignore[no-redef]
    loaded = tree_sitter.Language(grammar.language())
    query = " ".join(f"({kind}) @node" for kind in kinds)
    return tree_sitter.Parser(loaded), tree_sitter.Query(loaded, query)


def _text(node: "Node | None") -> str:
    return node.text.decode("utf-8", "replace") if node and node.text else ""


def _line(node: "Node") -> int:
    return int(node.start_point[0]) + 1


def _unquote(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "\"'`" else word


def _read_command(node: "Node") -> Iterator[Node_]:
    name = _unquote(_text(node.child_by_field_name("name")))
    arguments = node.children_by_field_name("argument")[:_MAX_WORDS]
    words = tuple(_unquote(_text(argument)) for argument in arguments)
    is_fed = bool(node.parent and node.parent.type == "pipeline" and node.prev_named_sibling)
    feeds = _find_reader(node)
    yield Call(name, words, _line(node), is_command=True, feeds=feeds, is_fed=is_fed)


def _find_reader(node: "Node") -> str:
    """The command behind the next pipe, without `sudo`; or the one that it is given to."""
    above = node.parent
    while above and above.type in {"redirected_statement", "negated_command"}:
        node, above = above, above.parent
    if above and above.type in {"process_substitution", "command_substitution"}:
        outer = above.parent
        while outer and outer.type in {"string", "redirected_statement", "file_redirect"}:
            outer = outer.parent
        return f"<{_command_name(outer)}" if outer and outer.type == "command" else ""
    following = node.next_named_sibling if above and above.type == "pipeline" else None
    return _command_name(following) if following else ""


def _command_name(node: "Node") -> str:
    if node.type != "command":
        node = next((child for child in node.named_children if child.type == "command"), node)
    words = _text(node).split()[:_MAX_WORDS]
    while words and (words[0] in {"sudo", "env", "exec", "nohup"} or words[0][0] == "-"):
        words = words[1:]
    if len(words) > 1 and words[1] in {"-c", "-m", "-e"}:
        return ""  # its program is written there, and what it reads is data
    return words[0].rpartition("/")[2] if words else ""


def _read_expansion(node: "Node") -> Iterator[Node_]:
    for child in node.named_children:
        if child.type == "variable_name" and not _text(child).isdigit():
            yield ReadVariable(_text(child), _line(node))


_READ_SHELL: Mapping[str, Reader] = {
    "command": _read_command,
    "simple_expansion": _read_expansion,
    "expansion": _read_expansion,
}


def _read_call(node: "Node") -> Iterator[Node_]:
    called = node.child_by_field_name("function") or node.child_by_field_name("constructor")
    arguments = node.child_by_field_name("arguments")
    words = tuple(_unquote(_text(each)) for each in arguments.named_children) if arguments else ()
    yield Call(_text(called), words[:_MAX_WORDS], _line(node))


def _read_member(node: "Node") -> Iterator[Node_]:
    if _text(node.child_by_field_name("object")) == "process.env":
        yield ReadVariable(_text(node.child_by_field_name("property")), _line(node))


_READ_JAVASCRIPT: Mapping[str, Reader] = {
    "call_expression": _read_call,
    "new_expression": _read_call,
    "member_expression": _read_member,
}
