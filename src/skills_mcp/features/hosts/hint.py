"""The few words that name the skills for a prompt."""

from collections.abc import Sequence

from skills_mcp.library import SkillLibrary
from skills_mcp.skills.model import printable
from skills_mcp.text.rendering import cut_text

MAX_HINT_CHARACTERS = 500
"""What a hint may add to a prompt."""

_MOST_NAMED = 3
_DESCRIPTION_CHARACTERS = 90

_ONE = "Your organisation has a skill for this task: {skills}. {call}, and follow it."
_SEVERAL = "Your organisation has skills for this task: {skills}. {call}."


def find_hint(library: SkillLibrary, prompt: str) -> str:
    """Return which skills fit a prompt, and what to call; empty if none does.

    Blocking. It is no event: the model has not asked.
    """
    if not library.is_ready:
        return ""
    named = [
        (printable(skill.path), printable(" ".join(skill.description.split())))
        for skill in library.find_skills(prompt)[:_MOST_NAMED]
    ]
    return compose_hint(named, has_core="core" in library.config.toolsets)


def compose_hint(skills: Sequence[tuple[str, str]], *, has_core: bool) -> str:
    """Return a hint that fits into its limit; empty if none does.

    Args:
        skills: The paths and descriptions, the best first.
        has_core: Whether `get_skill` is offered; else it is `load_skill`.
    """
    for count in range(len(skills), 0, -1):
        call = _render_call([path for path, _ in skills[:count]], has_core=has_core)
        form = _ONE if count == 1 else _SEVERAL
        for length in (_DESCRIPTION_CHARACTERS, 0):
            named = "; ".join(_render(*each, length) for each in skills[:count])
            hint = form.format(skills=named, call=call)
            if len(hint) <= MAX_HINT_CHARACTERS:
                return hint
    return ""


def _render(path: str, description: str, length: int) -> str:
    return (
        f"{path} ({cut_text(description, length)})" if length and description else path
    )


def _render_call(paths: Sequence[str], *, has_core: bool) -> str:
    tool = "get_skill with this task and" if has_core else "load_skill with"
    argument = "skill_path" if has_core else "skill_name"
    chosen = f'"{paths[0]}"' if len(paths) == 1 else "of the one that fits"
    first = "Before you write or change code, call the MCP tool"
    return f"{first} {tool} {argument} {chosen}"
