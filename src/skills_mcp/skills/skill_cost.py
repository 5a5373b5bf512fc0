"""Cost of a skill for the context of an agent, in characters and tokens.  Pure."""

from dataclasses import asdict, dataclass
from typing import Any

from skills_mcp.skills.composition import compose_skill
from skills_mcp.skills.inheritance import find_owners
from skills_mcp.skills.model import Skill
from skills_mcp.skills.skill_index import SkillIndex
from skills_mcp.text.tokens import count_tokens, estimate_from_bytes


@dataclass(frozen=True, slots=True)
class ContextSizes:
    """Sizes of the parts of a skill, all in one unit."""

    own: int
    """The skill's own text."""
    inherited: int
    """The other rules of its text, with their headers."""
    assets: int
    """All files that can be fetched, none of which comes by itself."""

    @property
    def text(self) -> int:
        return self.own + self.inherited


@dataclass(frozen=True, slots=True)
class SkillCost:
    tokens: ContextSizes
    characters: ContextSizes
    """Those of assets are bytes, as they are not read."""

    def render(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        tokens = self.tokens
        assets = f", and files of {tokens.assets:,}" if tokens.assets else ""
        return f"about {tokens.text:,} tokens, {tokens.inherited:,} of them inherited{assets}"


def derive_cost(index: SkillIndex, skill: Skill) -> SkillCost:
    text, body = compose_skill(index, skill).guidance, skill.body
    owners = find_owners(index, skill).items()
    asset_bytes = sum(owner.files[file].size_bytes for file, owner in owners if file != "SKILL.md")
    own = count_tokens(body)
    tokens = ContextSizes(own, max(0, count_tokens(text) - own), estimate_from_bytes(asset_bytes))
    return SkillCost(tokens, ContextSizes(len(body), max(0, len(text) - len(body)), asset_bytes))
