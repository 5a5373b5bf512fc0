"""What confines a run: bubblewrap, Landlock, Seatbelt, plain limits, or nothing.

Every tier is a prefix of the words that are started, so the runner does not need to
know which tier it is.  The strongest tier that works is found by running each once.
A tier that breaks later is an error, never a silent step down to a weaker one.
"""

from skills_mcp.scripts.sandbox.choice import Choice, Sandbox, expand_home

__all__ = ["Choice", "Sandbox", "expand_home"]
