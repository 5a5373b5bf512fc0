"""The skills inside another program: a Python API, and adapters for frameworks.

Rule: an adapter has no logic of its own about skills, and closes only what it opened.
"""

from importlib.util import find_spec

from skills_mcp.about import DISTRIBUTION


def require_extra(extra: str, module: str) -> None:
    """Refuse to import an adapter whose framework is not installed.

    Args:
        extra: The extra of this distribution that installs it.
        module: A module of the framework, such as `langchain_core`.

    Raises:
        ImportError: It is missing; the message says what to install.
    """
    if find_spec(module.partition(".")[0]) and find_spec(module):
        return
    door = extra.replace("-", "_")
    raise ImportError(
        f"skills_mcp.{door} needs {module}, which is not installed: "
        f"pip install '{DISTRIBUTION}[{extra}]'"
    )
