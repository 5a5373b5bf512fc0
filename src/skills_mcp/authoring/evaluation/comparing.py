"""Which prompts another state of the content answers in another way.  Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skills_mcp.authoring.evaluation.measuring import Outcome


@dataclass(frozen=True, slots=True)
class Change:
    """A prompt whose answer is another one now; without a skill it is empty."""

    query: str
    before: tuple[str, ...]
    after: tuple[str, ...]


def compare(before: Sequence[Outcome], after: Sequence[Outcome]) -> Iterator[Change]:
    """Iterate over the prompts whose skills are not the same.

    Scores and the order among candidates do not count: the caller picks one anyway.

    Args:
        before: What the prompts got in the older state.
        after: What the same prompts get now, in the same order.
    """
    for old, new in zip(before, after, strict=True):
        if set(old.answers) != set(new.answers):
            yield Change(new.prompt.query, old.answers, new.answers)
