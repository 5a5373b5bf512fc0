"""A page with one message and one link, such as that a person is signed out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import Response


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What the page says."""

    title: str
    message: str
    link: str
    link_text: str
    status: int = 200
    goes_on: bool = False
    """Whether the browser follows the link by itself."""


ShowNotice: TypeAlias = Callable[[Request, Notice], Response]
"""What shows it."""
