"""`skills-mcp status`: what is here, and how new it is."""

import os
from typing import Any
from urllib.parse import urlsplit

import click

from skills_mcp.bootstrap import Application
from skills_mcp.cli.printing import print_json
from skills_mcp.cli.states import compose_fact, compose_facts
from skills_mcp.config import Scripts, refuses_tracking
from skills_mcp.errors import SandboxUnavailableError
from skills_mcp.library.answers import render_state
from skills_mcp.scripts.sandbox import HOLDING, Choice, Sandbox

_NEEDS_CARE = 1

# Only what discovery looks for may be missing: a source that is named is said anyway.
_NOTHING = "There is no source: no .agents/skills was found here."


def print_status(application: Application, *, as_json: bool) -> int:
    """Say how each source is doing, without asking the network.

    Returns:
        The exit code: 1 if the content of a source is missing or stale.
    """
    states = application.library.shelf.look()
    rules, analytics = application.library.config.scripts, _find_analytics(application)
    choice = _choose(application.library.runs.sandbox, rules)
    if as_json:
        sources = [render_state(state) for state in states]
        scripts = _render(choice, rules)
        print_json({"sources": sources, "scripts": scripts, "analytics": analytics})
    else:
        click.echo(compose_facts(states) or _NOTHING)
        click.echo(f"\n{compose_fact('Scripts', _describe(choice, rules))}")
        click.echo(compose_fact("Analytics", _describe_analytics(analytics)))
    is_wanting = any(state.is_stale for state in states)
    return _NEEDS_CARE if is_wanting else 0


def _find_analytics(application: Application) -> dict[str, Any]:
    """Return whether events are written, where they go, and what is in them."""
    rules = application.library.config.analytics
    return {
        "enabled": rules.enabled,
        "refused": refuses_tracking(os.environ),
        # Without its path and query, in which people keep keys.
        "receiver": urlsplit(rules.endpoint).hostname,
        "context": rules.context,
        "identity": rules.identity,
    }


def _describe_analytics(found: dict[str, Any]) -> str:
    if not found["enabled"]:
        return "off (DO_NOT_TRACK)" if found["refused"] else "off"
    place = f"sent to {found['receiver']}" if found["receiver"] else "kept here"
    return f"on, {place}; context {found['context']}, identity {found['identity']}"


def _choose(sandbox: Sandbox, rules: Scripts) -> Choice | None:
    """Return which sandbox scripts would get; None if they would be refused."""
    try:
        return sandbox.choose(rules.sandbox) if rules.enabled else None
    except SandboxUnavailableError:
        return None


def _render(choice: Choice | None, rules: Scripts) -> dict[str, object]:
    return {
        "enabled": rules.enabled,
        "sandbox": choice.name if choice else None,
        "network": rules.network,
        "missing": choice.missing if choice else (),
    }


def _describe(choice: Choice | None, rules: Scripts) -> str:
    if not rules.enabled:
        return "off (scripts.enabled)"
    if choice is None:
        return "refused: scripts.sandbox is required, and this machine has none"
    if rules.sandbox == "off":
        return "run without a sandbox (scripts.sandbox)"
    held = "" if choice.name in HOLDING else "no sandbox, "
    network = ", with the network" if rules.network and not held else ""
    missing = f" ({'; '.join(choice.missing)})" if choice.missing else ""
    return f"{held}{choice.name}{network}{missing}"
