"""In-process Python API, and adapters for agent frameworks.

Rule: an adapter has no skill logic of its own, and closes only skills opened by itself.
"""

from importlib.util import find_spec

from skills_mcp.about import compose_install_command


def require_extra(extra: str, module: str) -> None:
    """Require an adapter's framework.

    Raises:
        ImportError: It is missing; the message has the extra to install.
    """
    if find_spec(module.partition(".")[0]) and find_spec(module):
        return
    door = extra.replace("-", "_")
    raise ImportError(
        f"skills_mcp.{door} needs {module}, which is not installed: "
        f"{compose_install_command(extra)}"
    )
