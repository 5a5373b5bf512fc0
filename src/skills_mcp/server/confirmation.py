"""Asking the person at a client before a program runs, if `scripts.confirm` says so.

A client of 2026-07-28 gets the question as the result of its call, and calls again with
the answer; an earlier one gets a request.
"""

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
from skills_mcp.text.rendering import shorten

_Context = ServerRequestContext[Any, Any]

_KEY = "run"

_NO_FIELDS = {"type": "object", "properties": {}}
"""Accepting or declining says it all."""

_LONGEST = 2_000  # characters of a value that are shown

_CANNOT_ASK = (
    "scripts.confirm is always, and this client cannot ask its user. Use a client that "
    "supports elicitation; the operator can set scripts.confirm to if_possible."
)
_NOT_ALLOWED = "The user did not allow this run. Ask the user how to go on."


async def ask_before_run(
    ctx: _Context, params: CallToolRequestParams, demand: ConfirmDemand
) -> InputRequiredResult | None:
    """Return the question that is still open; None if the program may run.

    Raises:
        NotConfirmedError: The person did not allow it, or cannot be asked.
    """
    if demand == "never":
        return None
    if not _can_ask(ctx):
        if demand == "always":
            raise NotConfirmedError(_CANNOT_ASK)
        return None
    form = ElicitRequestFormParams(
        message=_compose_question(params), requested_schema=_NO_FIELDS
    )
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        # An answer counts for the run that it was asked for.
        asked = _derive_state(params)
        answer = (params.input_responses or {}).get(_KEY)
        if not isinstance(answer, ElicitResult) or params.request_state != asked:
            question = ElicitRequest(params=form)
            return InputRequiredResult(
                input_requests={_KEY: question}, request_state=asked
            )
    else:
        answer = await ctx.session.elicit_form(
            form.message, form.requested_schema, ctx.request_id
        )
    if answer.action != "accept":
        raise NotConfirmedError(_NOT_ALLOWED)
    return None


def _can_ask(ctx: _Context) -> bool:
    told = ctx.session.client_capabilities
    if told is None or told.elicitation is None:
        return False
    # A client that names no mode has the one that there was first.
    return told.elicitation.form is not None or told.elicitation.url is None


def _compose_question(params: CallToolRequestParams) -> str:
    given = params.arguments or {}
    lines = [f"Run this on your machine? ({params.name})"]
    for name, value in given.items():
        text = json.dumps(value, ensure_ascii=False)
        cut = f"{text[:_LONGEST]} … ({len(text):,} characters)"
        lines.append(f"{shorten(name)}: {text if len(text) <= _LONGEST else cut}")
    return "\n".join(lines)


def _derive_state(params: CallToolRequestParams) -> str:
    call = json.dumps([params.name, params.arguments], sort_keys=True)
    return sha256(call.encode()).hexdigest()
