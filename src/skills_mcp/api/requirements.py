"""Argument checks."""

from collections.abc import Sequence

from skills_mcp.errors import InvalidArgumentsError


def require_texts(**arguments: object) -> None:
    """Require strings.

    Raises:
        InvalidArgumentsError: The message has the name of the argument.
    """
    for name, value in arguments.items():
        if not isinstance(value, str):
            raise InvalidArgumentsError(f"{name}: must be a text, not {_describe_value(value)}.")


def require_counts(**arguments: int | None) -> None:
    """Require positive integers or None.

    Raises:
        InvalidArgumentsError: The message has the name of the argument.
    """
    for name, value in arguments.items():
        is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
        if value is not None and not is_count:
            raise InvalidArgumentsError(
                f"{name}: must be a whole number from 1 on, not {_describe_value(value)}."
            )


def require_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Require one of several values.

    Raises:
        InvalidArgumentsError: The message has the name and the values.
    """
    if value not in choices:
        named = ", ".join(repr(choice) for choice in choices)
        raise InvalidArgumentsError(
            f"{name}: must be one of {named}, not {_describe_value(value)}."
        )


_MAX_VALUE_CHARACTERS = 60


def _describe_value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_VALUE_CHARACTERS else f"a {type(value).__name__}"
