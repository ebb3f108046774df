"""The pages behind approval links. Opening one shows what would run; only a button on it answers, by POST.

Programs that look at links before people do, as chat programs and mail filters, send GET and so
answer nothing. The link is the right to answer one question; nothing else can be reached by it.
"""

from __future__ import annotations

import asyncio
import html
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from handrail.core.display import exact_json, printable
from handrail.core.errors import HandrailError, UsageError
from handrail.core.ports import Clock, SystemClock
from handrail.journal.approval_links import PATH, ApprovalLink, ApprovalLinks
from handrail.journal.person_answers import answer
from handrail.journal.places import JournalPlace
from handrail.journal.waiting_questions import WaitingQuestion, find_waiting

BY = "somebody with an approval link"
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "same-origin",  # with no-referrer a browser would send its form as from nowhere
    "x-content-type-options": "nosniff",
    "x-robots-tag": "noindex",
}
_STYLE = "body{font:16px/1.5 system-ui;margin:3em auto;max-width:44em;padding:0 1em}pre{white-space:pre-wrap}"
_BUTTONS = {"allow": "Allow this call", "deny": "Deny it"}


def approval_routes(
    journal: JournalPlace, links: Callable[[], ApprovalLinks], clock: Clock = SystemClock()
) -> tuple[Route, ...]:
    """The routes of a node whose journal this is; `links` reads the key of the links, and may block."""

    async def endpoint(request: Request) -> Response:
        token = request.path_params["token"]
        try:
            link = (await asyncio.to_thread(links)).read(token, clock.now())
            question = await asyncio.to_thread(_waiting, journal, link)
            if request.method == "POST":
                return await _answered(journal, question, await _decision(request), link)
            return _page(_question(question, link), 200)
        except HandrailError as error:
            return _page(f"<p>{_shown(str(error))}</p>", 403 if isinstance(error, UsageError) else 503)

    return (Route(f"{PATH}{{token}}", endpoint, methods=["GET", "HEAD", "POST"]),)


def _waiting(journal: JournalPlace, link: ApprovalLink) -> WaitingQuestion:
    found = find_waiting(journal, link.run, link.request)
    if found is None or found.asked.binds != link.binds:
        raise UsageError("this call no longer waits for an answer; somebody may have given one")
    return found


async def _decision(request: Request) -> str:
    form = (await request.body())[:64].decode("ascii", "replace")
    return form.removeprefix("decision=")


async def _answered(journal: JournalPlace, question: WaitingQuestion, decision: str, link: ApprovalLink) -> Response:
    if (link.kind, decision) == ("deny", "allow"):
        raise UsageError("this link can only deny")
    match decision:
        case "allow":
            question.refuse_unseen()
            await answer(journal, question.asked, "allow", by=BY)
            words = "Allowed. It runs when its program asks for it again, or at once if the program waits."
        case "deny":
            await answer(journal, question.asked, "deny", by=BY)
            words = "Denied. It will not run."
        case _:
            raise UsageError("this answer is neither allow nor deny")
    return _page(f"<p>{words}</p>", 200)


def _question(question: WaitingQuestion, link: ApprovalLink) -> str:
    asked, subject = question.asked, question.asked.asked
    why = "" if subject is None or not subject.why else f"<p>You are asked because {_shown(subject.why)}.</p>"
    arguments = "They were erased." if asked.arguments is None else exact_json(asked.arguments)
    decisions, note = ["allow", "deny"], ""
    if unseen := question.unseen:
        decisions, note = ["deny"], f"<p>{_shown(unseen)}</p>"
    if link.kind in decisions:
        decisions = [link.kind]
    buttons = "".join(f'<button name="decision" value="{each}">{_BUTTONS[each]}</button> ' for each in decisions)
    return (
        f"<h1>{_shown(asked.tool)} asks to run</h1>{why}<p>It runs with exactly these arguments:</p>"
        f'<pre>{html.escape(arguments)}</pre>{note}<form method="post">{buttons}</form>'
    )


def _shown(text: str) -> str:
    return html.escape(printable(text))


def _page(body: str, status: int) -> Response:
    whole = f"<!doctype html><meta charset=utf-8><title>handrail</title><style>{_STYLE}</style>{body}\n"
    return HTMLResponse(whole, status, HEADERS)
