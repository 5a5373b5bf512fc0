"""The tools of each tool set, and the instructions that hosts give to a model.

Rule: a model knows nothing else about the server, and every session pays for these
texts. The descriptions stay below 6 KB together, the instructions below 2 KB.
"""

from skills_mcp.config import Config
from skills_mcp.server.core_tools import CORE_TOOLS
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

# Every tool set needs it: a folder is read again on request only.
_ALWAYS = tuple(spec for spec in CORE_TOOLS if spec.name == "refresh_skills")


def tools_for(config: Config) -> tuple[ToolSpec, ...]:
    """Return the tools of the tool sets that are on; commands only if enabled."""
    chosen: tuple[ToolSpec, ...] = ()
    if "core" in config.toolsets:
        chosen += CORE_TOOLS
    if "packages" in config.toolsets:
        from skills_mcp.server.package_tools import COMMAND_TOOLS, PACKAGE_TOOLS

        chosen += PACKAGE_TOOLS
        chosen += COMMAND_TOOLS if config.commands.enabled else ()
    return chosen if "core" in config.toolsets else (*chosen, *_ALWAYS)


def instructions_for(config: Config) -> str:
    """Return the instructions for the tool sets that are on."""
    if "packages" not in config.toolsets:
        return _CORE_INSTRUCTIONS
    more = _COMMANDS if config.commands.enabled else ""
    if "core" not in config.toolsets:
        return _PACKAGES_INSTRUCTIONS + more
    return _CORE_INSTRUCTIONS + _BESIDE + more
