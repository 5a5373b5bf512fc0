"""Who has sent a message of MCP."""

from typing import Any

from mcp.server.context import ServerRequestContext

from skills_mcp.identity.principal import OPERATOR, PRINCIPAL_KEY, Principal


def caller_of(context: ServerRequestContext[Any, Any]) -> Principal:
    """Return the caller of a message; on standard input, the operator.

    Raises:
        KeyError: A request came past the sign-in, which is a defect of this program.
    """
    if context.request is None:
        return OPERATOR
    principal: Principal = context.request.scope[PRINCIPAL_KEY]
    return principal
