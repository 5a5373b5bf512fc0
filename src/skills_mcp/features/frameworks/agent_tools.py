"""Tools for LangChain and LangGraph out of functions that return a text for a model.

An error of ours becomes a message with the status `error`, which the model reads.
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


def wrap_functions(
    functions: Sequence[Callable[..., ToolText]],
    coroutines: Mapping[str, Callable[..., Awaitable[ToolText]]],
) -> list[BaseTool]:
    """Return a tool for each function, with its name, arguments and docstring.

    `Field(description=…)` in the annotation of an argument is what a model reads of it.

    Args:
        functions: Quick ones run in a thread of LangChain when a program is `async`.
        coroutines: What such a program awaits instead, by the name of the function.
    """
    return [_wrap(each, coroutines.get(each.__name__)) for each in functions]


def _wrap(
    function: Callable[..., ToolText],
    coroutine: Callable[..., Awaitable[ToolText]] | None,
) -> BaseTool:
    @wraps(function)
    def call(**arguments: Any) -> _Answer:
        try:
            return _answer(function(**arguments))
        except SkillsError as error:
            raise _refuse(error) from error

    async def wait(**arguments: Any) -> _Answer:
        try:
            return _answer(await coroutine(**arguments))  # type: ignore[misc]
        except SkillsError as error:
            raise _refuse(error) from error

    return StructuredTool.from_function(
        func=call,
        coroutine=wait if coroutine else None,
        description=inspect.getdoc(function),
        args_schema=_derive_schema(function),
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=_explain_validation,
    )


def _derive_schema(function: Callable[..., ToolText]) -> type[BaseModel]:
    """Return the arguments as a model; LangChain's own takes `args` for `*args`."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        each.name: (
            hints[each.name],
            ... if each.default is each.empty else each.default,
        )
        for each in inspect.signature(function).parameters.values()
    }
    return create_model(function.__name__, **fields)


def _answer(text: ToolText) -> _Answer:
    return str(text), {"structured_content": dict(text.data)}


def _refuse(error: SkillsError) -> ToolException:
    said = render_error(error)
    message = said["message"]
    for theirs, ours in _OTHER_TOOLS.items():
        message = message.replace(theirs, ours)
    return ToolException(f"{said['code']}: {message}")


def _explain_validation(error: ValidationError) -> str:
    """Say which arguments are wrong, without their values."""
    found = error.errors(include_url=False, include_input=False)
    wrong = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in found)
    return f"{InvalidArgumentsError.code}: {'; '.join(wrong)}"
