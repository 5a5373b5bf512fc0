"""Page to change the text of a skill: form, check, and sending.

Rule: no answer loses the text of the form. It stays in the form, so that any replica may
get the next click.
"""

from functools import partial
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from skills_mcp.errors import InvalidArgumentsError, PackageNotAddedError, SkillsError
from skills_mcp.features.authoring.text_proposals import (
    MAX_REASON,
    ProposedText,
    SentText,
    SourceText,
    TextCheck,
    TextProposals,
    describe_conflict,
)
from skills_mcp.features.web import upload_page
from skills_mcp.features.web.browsing import derive_title
from skills_mcp.features.web.page import (
    derive_status,
    describe_for_person,
    get_visible_library,
    render_template,
    wait_for_disconnect,
)
from skills_mcp.library import Snapshot
from skills_mcp.skills.access import PRINCIPAL_KEY, UPLOAD, Principal
from skills_mcp.skills.model import Skill

PROPOSE_PATH = "/propose"

_SHOWN_PROBLEMS = 50
_SHOWN_CHANGES = 50
_SHOWN_LINES = 1_000

_SEND = "send"


def propose_routes() -> list[Route]:
    return [
        Route(f"{PROPOSE_PATH}/{{path:path}}", show_text, methods=["GET"]),
        Route(f"{PROPOSE_PATH}/{{path:path}}", check_or_send, methods=["POST"]),
    ]


def find_propose_url(request: Request, snapshot: Snapshot, skill: Skill) -> str:
    """Path of the form; empty if the caller cannot change the skill here."""
    queue: upload_page.UploadQueue | None = getattr(request.app.state, "upload_queue", None)
    principal: Principal = request.scope[PRINCIPAL_KEY]
    if queue is None or not principal.may(UPLOAD):
        return ""
    takes = TextProposals(queue.uploads).takes(snapshot, skill)
    return f"{PROPOSE_PATH}/{quote(skill.path)}" if takes else ""


async def show_text(request: Request) -> Response:
    """Show the text of a skill in a form, or the missing permission."""
    principal: Principal = request.scope[PRINCIPAL_KEY]
    path: str = request.path_params["path"]
    if not principal.may(UPLOAD):
        return _render(request, path, lacks=upload_page.describe_missing_scope(principal))
    uploader, queue = upload_page.find_uploader(request), upload_page.get_upload_queue(request)
    proposals = TextProposals(queue.uploads)
    try:
        current: SourceText = await queue.run(lambda _: proposals.open(path, uploader))
    except PackageNotAddedError as error:
        return _render(request, path, refusal=describe_for_person(error), status=409)
    sent = ProposedText(current.skill.path, current.digest, current.text)
    return _render(request, path, proposed=sent, file=current.file)


async def check_or_send(request: Request) -> Response:
    """Show the effect of a text, and send a text after it was shown."""
    uploader, queue = upload_page.find_uploader(request), upload_page.get_upload_queue(request)
    async with upload_page.parsed_form(request) as form:
        proposed = _read_proposed(request.path_params["path"], form)
        is_confirmed = form.get("action") == _SEND and form.get("checked") == _digest(proposed)
    proposals, gone = TextProposals(queue.uploads), partial(wait_for_disconnect, request.receive)
    try:
        if is_confirmed:
            send = partial(proposals.send, proposed, uploader)
            done: SentText = await queue.run(send, gone)
            return await _show_sent(request, done)
        check: TextCheck = await queue.run(partial(proposals.check, proposed, uploader), gone)
    except SkillsError as error:
        return _show_refused(request, proposed, error)
    refusal = check.refusal
    if check.base != proposed.base:
        refusal = describe_conflict(proposed.path)
    status = 409 if refusal else 200
    return _render_check(request, proposed, check, refusal, status)


def _read_proposed(path: str, form: FormData) -> ProposedText:
    """Read the fields of the form.

    Raises:
        InvalidArgumentsError: One is missing.
    """
    text, base, reason = (form.get(name) for name in ("text", "base", "reason"))
    if not isinstance(text, str) or not isinstance(base, str):
        raise InvalidArgumentsError("text and base: are missing in the form. Open the page anew.")
    reason = reason if isinstance(reason, str) else ""
    return ProposedText(path, base, text.replace("\r\n", "\n"), reason[:MAX_REASON])


def _digest(proposed: ProposedText) -> str:
    """Digest of the checked text and of the text that it replaces."""
    whole = f"{proposed.base}\n{proposed.text}"
    return sha256(whole.encode("utf-8", "replace")).hexdigest()


async def _show_sent(request: Request, done: SentText) -> Response:
    is_served = False
    if done.review is None:
        queue, uploader = upload_page.get_upload_queue(request), upload_page.find_uploader(request)
        is_served = (await queue.refresh(done.path, uploader)).is_served
    return _render(request, done.path, done=done, is_served=is_served)


def _show_refused(request: Request, proposed: ProposedText, error: SkillsError) -> Response:
    refusal, status = describe_for_person(error), derive_status(error)
    return _render(request, proposed.path, proposed=proposed, refusal=refusal, status=status)


def _render_check(
    request: Request, proposed: ProposedText, check: TextCheck, refusal: str, status: int
) -> Response:
    newest = ProposedText(proposed.path, check.base, proposed.text, proposed.reason)
    may_send = not check.refusal
    return _render(
        request,
        proposed.path,
        proposed=newest,
        check=check,
        checked=_digest(newest) if may_send else "",
        refusal=refusal,
        status=status,
    )


def _find_title(request: Request, path: str) -> str:
    skill = get_visible_library(request).snapshot.index.get(path)
    return derive_title(skill.path, skill.body) if skill else path


def _render(request: Request, path: str, *, status: int = 200, **content: Any) -> Response:
    absent: dict[str, Any] = {"proposed": None, "check": None, "done": None, "is_served": False}
    absent |= {"lacks": "", "refusal": "", "checked": "", "file": ""}
    return render_template(
        request,
        "propose.html",
        status=status,
        path=path,
        title=_find_title(request, path),
        action=f"{PROPOSE_PATH}/{quote(path)}",
        is_reviewed=upload_page.get_upload_queue(request).uploads.is_reviewed,
        most_reason=MAX_REASON,
        most_problems=_SHOWN_PROBLEMS,
        most_changes=_SHOWN_CHANGES,
        most_lines=_SHOWN_LINES,
        **{**absent, **content},
    )
