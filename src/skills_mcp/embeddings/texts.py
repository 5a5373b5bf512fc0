"""What of a skill or a task is turned into a vector, and so what is sent."""

from skills_mcp.skills.model import Skill

# Measured: more of the body adds little to what a model sees (notes/routing.md §9),
# and many models read no more than 512 tokens.
MAX_BODY_CHARACTERS = 1_500

# A description may be as long as its author likes; the standard allows 1,024.
_MAX_DESCRIPTION_CHARACTERS = 1_500

# Pasted logs and files follow what somebody wants; nobody puts them first.
_MAX_TASK_CHARACTERS = 4_000


def compose_text(skill: Skill) -> str:
    """Return what stands for a skill: name, description and the start of its body."""
    name = skill.name.replace("-", " ").replace("_", " ")
    description = skill.description[:_MAX_DESCRIPTION_CHARACTERS]
    return _sendable(f"{name}\n{description}\n{skill.body[:MAX_BODY_CHARACTERS]}")


def compose_question(context: str) -> str:
    """Return what stands for a task."""
    return _sendable(" ".join(context.split())[:_MAX_TASK_CHARACTERS])


def _sendable(text: str) -> str:
    """Return a text without half characters, which no JSON parser has to take."""
    return text.encode("utf-8", "replace").decode().strip()
