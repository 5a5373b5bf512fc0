"""Selection of rules by name or pattern."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase

from skills_mcp.features.authoring.validation.rules import RULES
from skills_mcp.text.rendering import abbreviate_value

_MAX_SUGGESTIONS = 4  # of the names that a wrong one may mean


class UnknownRuleError(ValueError):
    """Unknown rule or pattern; the message suggests similar rules."""


@dataclass(frozen=True, slots=True)
class RuleSelection:
    selected: frozenset[str] = RULES
    ignored: frozenset[str] = frozenset()

    def reports(self, rule: str) -> bool:
        return rule in self.selected and rule not in self.ignored

    def within(self, select: Iterable[str], ignore: Iterable[str]) -> "RuleSelection":
        """Combine with the selection in the content's settings.

        The author's selection wins; ignored rules are united.

        Raises:
            UnknownRuleError: No rule has one of the names.
        """
        theirs = select_rules(select, ignore)
        is_open = self.selected == RULES
        selected = theirs.selected if is_open else self.selected
        return replace(self, selected=selected, ignored=self.ignored | theirs.ignored)


ALL_RULES = RuleSelection()


def select_rules(select: Iterable[str], ignore: Iterable[str]) -> RuleSelection:
    """Resolve names and patterns such as `link-*`; no selection selects all.

    Raises:
        UnknownRuleError: No rule has one of the names.
    """
    selected, ignored = frozenset(_resolve(select)), frozenset(_resolve(ignore))
    return RuleSelection(selected or RULES, ignored)


def _resolve(patterns: Iterable[str]) -> Iterator[str]:
    for pattern in patterns:
        found = [rule for rule in RULES if fnmatchcase(rule, pattern)]
        if not found:
            raise UnknownRuleError(_describe_unknown(pattern))
        yield from found


def _describe_unknown(pattern: str) -> str:
    by_prefix = sorted(rule for rule in RULES if pattern and rule.startswith(pattern))
    alike = (
        get_close_matches(pattern, sorted(RULES), n=_MAX_SUGGESTIONS)
        or by_prefix[:_MAX_SUGGESTIONS]
    )
    hint = f"Did you mean {' or '.join(alike)}?" if alike else ""
    more = "skills-mcp validate prints the rule of each finding in brackets."
    return f"There is no rule {abbreviate_value(pattern)}. {hint or more}"
