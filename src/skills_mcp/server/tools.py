"""Which tools there are, and what a model reads before it knows any of them.

A model that has never heard of us reads these texts and nothing else. The
descriptions stay below 6 KB together, the instructions below 2 KB (DESIGN §8).
"""

from skills_mcp.config import Config
from skills_mcp.server.core_tools import CORE_TOOLS
from skills_mcp.server.package_tools import COMMAND_TOOLS, PACKAGE_TOOLS
from skills_mcp.server.toolspec import ToolSpec

_CORE_INSTRUCTIONS = """\
Call get_skill with a description of the task before you write or change code: it \
returns this organisation's rules, templates and scripts for exactly that task. \
They take precedence over your general habits.

1. get_skill(context="add login to the React app"). The reply is one of:
   - a match: follow "content" (general rules first, the specific ones last win);
   - "ambiguous": call get_skill again with the skill_path that fits;
   - "no_match": go on without; do not retry with other words more than once.
2. Fetch the assets you need with get_asset instead of writing them from memory. \
Scripts with execution "claude": fetch with get_asset and run them in your shell. \
Scripts with execution "server": call run_script.
3. When the task is done, call report_usage, above all when a skill was wrong.

list_skills shows everything there is. Call refresh_skills only when the user says \
that skills have just changed.
"""

_BESIDE = """
To pick a skill yourself: search_skills, then load_skill with its name or path, \
then read_skill_file for the files that its text mentions.
"""

_COMMANDS = """
Without a shell of your own: run_skill_command runs a script of a skill, and \
run_skill_entry the one that it names as its "entry".
"""

_PACKAGES_INSTRUCTIONS = """\
Call search_skills with a description of the task before you write or change code: \
this organisation's skills take precedence over your general habits.

1. search_skills(query="extract invoice numbers from a PDF") lists the skills that \
fit best, with name, description and path.
2. load_skill(skill_name="pdf") returns one of them; follow its instructions.
3. read_skill_file(skill_name="pdf", file_path="references/forms.md") reads a file \
that they mention; find_skill_files lists all. Run scripts in your own shell, in the \
folder that load_skill names as "path".

Call refresh_skills only when the user says that skills have just changed, or a \
reply says so.
"""

TOOLS = (*CORE_TOOLS, *PACKAGE_TOOLS, *COMMAND_TOOLS)
"""In the order in which hosts list them, which never changes (prompt caches)."""

# Without it nobody could bring what has changed: a folder is read on request only.
_FOR_EVERYBODY = tuple(spec for spec in CORE_TOOLS if spec.name == "refresh_skills")


def tools_for(config: Config) -> tuple[ToolSpec, ...]:
    """Return the tools that the operator wants (000 §3.5: commands only if enabled)."""
    chosen: tuple[ToolSpec, ...] = ()
    if "core" in config.toolsets:
        chosen += CORE_TOOLS
    if "packages" in config.toolsets:
        chosen += PACKAGE_TOOLS
        chosen += COMMAND_TOOLS if config.commands.enabled else ()
    return chosen if "core" in config.toolsets else (*chosen, *_FOR_EVERYBODY)


def instructions_for(config: Config) -> str:
    """Return what a host tells the model about the tools that there are."""
    if "packages" not in config.toolsets:
        return _CORE_INSTRUCTIONS
    more = _COMMANDS if config.commands.enabled else ""
    if "core" not in config.toolsets:
        return _PACKAGES_INSTRUCTIONS + more
    return _CORE_INSTRUCTIONS + _BESIDE + more
