"""What holds a run: bubblewrap, Landlock, plain limits, or nothing (DESIGN §3.13).

Every tier is a prefix of the words that are started, so whoever starts a command
need not know which it is. The strongest that works is found by running each once;
one that breaks later is an error, never a silent step down to a weaker one.
"""

from skills_mcp.scripts.sandbox.choice import HOLDING, Choice, Sandbox
from skills_mcp.scripts.sandbox.grants import Grants, expand

__all__ = ["HOLDING", "Choice", "Grants", "Sandbox", "expand"]
