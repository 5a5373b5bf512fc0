"""Which rules count: those that an author selects, without those that are ignored."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase

from skills_mcp.features.authoring.validation.rules import RULES
from skills_mcp.text.rendering import shorten

_MANY = 4  # of the names that a wrong one may mean


class UnknownRuleError(ValueError):
    """A name or pattern that no rule has; the message names similar rules."""


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """The rules whose findings are reported."""

    selected: frozenset[str] = RULES
    ignored: frozenset[str] = frozenset()

    def takes(self, rule: str) -> bool:
        """Whether findings of this rule are reported."""
        return rule in self.selected and rule not in self.ignored

    def within(self, select: Iterable[str], ignore: Iterable[str]) -> "RuleChoice":
        """Return this choice on top of that of the content's settings.

        A selection of the author wins over that of the content; what either ignores
        is ignored.

        Args:
            select: Names and patterns of the settings; none stands for all rules.
            ignore: Names and patterns of the settings.

        Raises:
            UnknownRuleError: No rule has one of the names.
        """
        theirs = choose_rules(select, ignore)
        is_open = self.selected == RULES
        selected = theirs.selected if is_open else self.selected
        return replace(self, selected=selected, ignored=self.ignored | theirs.ignored)


EVERY_RULE = RuleChoice()
"""All rules."""


def choose_rules(select: Iterable[str], ignore: Iterable[str]) -> RuleChoice:
    """Return the choice that names and patterns such as `link-*` make.

    Args:
        select: The rules that count; none stands for all.
        ignore: Those that do not.

    Raises:
        UnknownRuleError: No rule has one of the names.
    """
    selected, ignored = frozenset(_resolve(select)), frozenset(_resolve(ignore))
    return RuleChoice(selected or RULES, ignored)


def _resolve(patterns: Iterable[str]) -> Iterator[str]:
    for pattern in patterns:
        found = [rule for rule in RULES if fnmatchcase(rule, pattern)]
        if not found:
            raise UnknownRuleError(_describe(pattern))
        yield from found


def _describe(pattern: str) -> str:
    begun = sorted(rule for rule in RULES if pattern and rule.startswith(pattern))
    alike = get_close_matches(pattern, sorted(RULES), n=_MANY) or begun[:_MANY]
    hint = f"Did you mean {' or '.join(alike)}?" if alike else ""
    more = "skills-mcp validate prints the rule of each finding in brackets."
    return f"There is no rule {shorten(pattern)}. {hint or more}"
