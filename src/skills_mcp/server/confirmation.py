"""Confirmation by the user before a program runs."""

import json
from hashlib import sha256
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp_types import (
    CallToolRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from skills_mcp.config.values import ConfirmDemand
from skills_mcp.errors import NotConfirmedError
from skills_mcp.text.rendering import abbreviate_value

_Context = ServerRequestContext[Any, Any]

_KEY = "run"

_NO_FIELDS = {"type": "object", "properties": {}}
"""Accept or decline is the whole answer."""

_MAX_VALUE_CHARACTERS = 2_000  # characters of a value that are shown

_CANNOT_ASK = (
    "scripts.confirm is always, and this client cannot ask its user. Use a client that "
    "supports elicitation; the operator can set scripts.confirm to if_possible."
)
_NOT_ALLOWED = "The user did not allow this run. Ask the user how to go on."


async def confirm_run(
    ctx: _Context, params: CallToolRequestParams, demand: ConfirmDemand
) -> InputRequiredResult | None:
    """Question still to be answered; None: the program may run.

    Since 2026-07-28 the question is the result of the call, and the client repeats the
    call
    with the answer. Earlier clients receive an elicitation request.

    Raises:
        NotConfirmedError: The user declined, or cannot be asked.
    """
    if demand == "never":
        return None
    if not _supports_elicitation(ctx):
        if demand == "always":
            raise NotConfirmedError(_CANNOT_ASK)
        return None
    form = ElicitRequestFormParams(message=_compose_question(params), requested_schema=_NO_FIELDS)
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        # An answer counts for the run that it was asked for.
        state = _derive_state(params)
        answer = (params.input_responses or {}).get(_KEY)
        if not isinstance(answer, ElicitResult) or params.request_state != state:
            question = ElicitRequest(params=form)
            return InputRequiredResult(input_requests={_KEY: question}, request_state=state)
    else:
        answer = await ctx.session.elicit_form(form.message, form.requested_schema, ctx.request_id)
    if answer.action != "accept":
        raise NotConfirmedError(_NOT_ALLOWED)
    return None


def _supports_elicitation(ctx: _Context) -> bool:
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        return False
    # A client that names no mode has the one that there was first.
    return capabilities.elicitation.form is not None or capabilities.elicitation.url is None


def _compose_question(params: CallToolRequestParams) -> str:
    arguments = params.arguments or {}
    lines = [f"Run this on your machine? ({params.name})"]
    for name, value in arguments.items():
        text = json.dumps(value, ensure_ascii=False)
        cut = f"{text[:_MAX_VALUE_CHARACTERS]} … ({len(text):,} characters)"
        lines.append(
            f"{abbreviate_value(name)}: {text if len(text) <= _MAX_VALUE_CHARACTERS else cut}"
        )
    return "\n".join(lines)


def _derive_state(params: CallToolRequestParams) -> str:
    call = json.dumps([params.name, params.arguments], sort_keys=True)
    return sha256(call.encode()).hexdigest()
