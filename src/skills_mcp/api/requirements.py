"""What a program must give: texts, counts, one of some words.

A type checker finds a wrong value before it is given; these say it where none runs.
"""

from collections.abc import Sequence

from skills_mcp.errors import InvalidArgumentsError


def require_texts(**given: object) -> None:
    """Refuse what is no text.

    Raises:
        InvalidArgumentsError: The message has the name of the argument.
    """
    for name, value in given.items():
        if not isinstance(value, str):
            raise InvalidArgumentsError(
                f"{name}: must be a text, not {_describe(value)}."
            )


def require_counts(**given: int | None) -> None:
    """Refuse what is neither a whole number from 1 on nor None.

    Raises:
        InvalidArgumentsError: The message has the name of the argument.
    """
    for name, value in given.items():
        is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
        if value is not None and not is_count:
            raise InvalidArgumentsError(
                f"{name}: must be a whole number from 1 on, not {_describe(value)}."
            )


def require_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Refuse what is none of some values.

    Raises:
        InvalidArgumentsError: The message has the name and the values.
    """
    if value not in choices:
        named = ", ".join(repr(each) for each in choices)
        raise InvalidArgumentsError(
            f"{name}: must be one of {named}, not {_describe(value)}."
        )


_LONGEST = 60


def _describe(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _LONGEST else f"a {type(value).__name__}"
