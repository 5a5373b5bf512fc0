"""LangChain and LangGraph tools from functions with a text result.

An error of ours becomes a message with the status `error`, visible to the model.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from typing import Any, get_type_hints

from langchain_core.tools import BaseTool, StructuredTool, ToolException
from pydantic import BaseModel, ValidationError, create_model

from skills_mcp.errors import InvalidArgumentsError, SkillsError
from skills_mcp.features.frameworks.tool_text import ToolText
from skills_mcp.library import render_error

# A message of the library names tools of the server that are not here.
_OTHER_TOOLS = {
    "list_skills or search_skills": "list_available_skills",
    ", or run one of its files with run_skill_command": "",
}

_Answer = tuple[str, dict[str, Any]]


def to_langchain_tools(
    functions: Sequence[Callable[..., ToolText]],
    coroutines: Mapping[str, Callable[..., Awaitable[ToolText]]],
) -> list[BaseTool]:
    """Make a tool of each function, from its name, annotations and docstring.

    `async` programs await the coroutine of the same name; other functions run in a
    thread.
    """
    return [
        _to_langchain_tool(function, coroutines.get(function.__name__)) for function in functions
    ]


def _to_langchain_tool(
    function: Callable[..., ToolText],
    coroutine: Callable[..., Awaitable[ToolText]] | None,
) -> BaseTool:
    @wraps(function)
    def call(**arguments: Any) -> _Answer:
        try:
            return _to_langchain_answer(function(**arguments))
        except SkillsError as error:
            raise _to_tool_exception(error) from error

    async def wait(**arguments: Any) -> _Answer:
        try:
            return _to_langchain_answer(await coroutine(**arguments))  # type: ignore[misc]
        except SkillsError as error:
            raise _to_tool_exception(error) from error

    return StructuredTool.from_function(
        func=call,
        coroutine=wait if coroutine else None,
        description=inspect.getdoc(function),
        args_schema=_derive_schema(function),
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=_render_validation_error,
    )


def _derive_schema(function: Callable[..., ToolText]) -> type[BaseModel]:
    """Arguments as a model; LangChain's own renames `args`, as for `*args`."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        parameter.name: (
            hints[parameter.name],
            ... if parameter.default is parameter.empty else parameter.default,
        )
        for parameter in inspect.signature(function).parameters.values()
    }
    return create_model(function.__name__, **fields)


def _to_langchain_answer(text: ToolText) -> _Answer:
    return str(text), {"structured_content": dict(text.data)}


def _to_tool_exception(error: SkillsError) -> ToolException:
    rendered = render_error(error)
    message = rendered["message"]
    for theirs, ours in _OTHER_TOOLS.items():
        message = message.replace(theirs, ours)
    return ToolException(f"{rendered['code']}: {message}")


def _render_validation_error(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_input=False)
    wrong = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in found)
    return f"{InvalidArgumentsError.code}: {'; '.join(wrong)}"
