"""Short hint about matching skills for a prompt."""

from collections.abc import Sequence

from skills_mcp.library import SkillLibrary
from skills_mcp.skills.model import escape_unprintable
from skills_mcp.text.rendering import truncate_text

MAX_HINT_CHARACTERS = 500

_MAX_NAMED = 3
_DESCRIPTION_CHARACTERS = 90

_ONE = "Your organisation has a skill for this task: {skills}. {call}, and follow it."
_SEVERAL = "Your organisation has skills for this task: {skills}. {call}."


def find_hint(library: SkillLibrary, prompt: str) -> str:
    """Compose a hint for a prompt; empty without a match.

    Blocking. It records no event: the model has not asked.
    """
    if not library.is_ready:
        return ""
    named = [
        (
            escape_unprintable(skill.path),
            escape_unprintable(" ".join(skill.description.split())),
        )
        for skill in library.find_skills(prompt)[:_MAX_NAMED]
    ]
    return compose_hint(named, has_core="core" in library.config.toolsets)


def compose_hint(skills: Sequence[tuple[str, str]], *, has_core: bool) -> str:
    """Compose a hint within its limit, best skills first; empty if nothing fits."""
    for count in range(len(skills), 0, -1):
        call = _render_call([path for path, _ in skills[:count]], has_core=has_core)
        form = _ONE if count == 1 else _SEVERAL
        for length in (_DESCRIPTION_CHARACTERS, 0):
            named = "; ".join(_render_skill(*skill, length) for skill in skills[:count])
            hint = form.format(skills=named, call=call)
            if len(hint) <= MAX_HINT_CHARACTERS:
                return hint
    return ""


def _render_skill(path: str, description: str, length: int) -> str:
    return f"{path} ({truncate_text(description, length)})" if length and description else path


def _render_call(paths: Sequence[str], *, has_core: bool) -> str:
    tool = "get_skill with this task and" if has_core else "load_skill with"
    argument = "skill_path" if has_core else "skill_name"
    chosen = f'"{paths[0]}"' if len(paths) == 1 else "of the one that fits"
    first = "Before you write or change code, call the MCP tool"
    return f"{first} {tool} {argument} {chosen}"
