"""Posts each call that waits for a person's decision to a webhook, with links by which a person answers.

The post is signed as Standard Webhooks says (https://www.standardwebhooks.com). `text` and `blocks`
are what Slack-compatible incoming webhooks show; `data` is for programs. The question itself is in
the journal before anything is posted, so a webhook that is down loses none.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from handrail.config.approval_settings import ApprovalSettings
from handrail.core.backoff import longest_wait
from handrail.core.confirmation import Confirmation, Decision, Defer
from handrail.core.display import exact_json, printable
from handrail.core.errors import UsageError
from handrail.core.ports import Approver, Clock, SystemClock
from handrail.core.redact import redact_text
from handrail.http.address import HttpAddress, request_head
from handrail.http.client import HttpClient
from handrail.http.connection import BadHttpAnswer
from handrail.journal.approval_links import PATH, ApprovalLink, ApprovalLinks, LinkKind

logger = logging.getLogger(__name__)

_PREFIX = "whsec_"
"""Before a secret that is Base64, as the standard has it."""
TRIES = 10
FIRST, LONGEST = 1.0, 120.0
"""Seconds between two tries: at first, and at most."""
_AGAIN = (408, 425, 429)
"""Answers below 500 after which it is tried again."""
_LONGEST_TITLE = 450
_SHOWN = 2_500
"""Characters of the arguments in a message; a block of Slack has room for 3,000."""


def signature(secret: str, id: str, seconds: int, body: bytes) -> str:
    """The header `webhook-signature` of a post."""
    key = secret.encode()
    if secret.startswith(_PREFIX):
        try:
            key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except binascii.Error as error:
            raise UsageError("the secret of the approval webhook begins with whsec_ and is not Base64") from error
    signed = b"%b.%d.%b" % (id.encode(), seconds, body)
    return f"v1,{base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()}"


class ApprovalWebhook:
    """Posts questions in the background. Close it: what was not delivered by then stays in the journal."""

    def __init__(
        self,
        settings: ApprovalSettings,
        links: ApprovalLinks | None,
        *,
        clock: Clock = SystemClock(),
        pause: Callable[[int], float] = lambda tries: random.uniform(0.5, 1) * longest_wait(tries, FIRST, LONGEST),
    ) -> None:
        self._url = settings.webhook_url() or ""
        self._secret = settings.signing_secret()
        if self._secret is not None:
            signature(self._secret, "", 0, b"")  # a secret that cannot be used is told at the start
        self._settings = settings
        self._links = links
        self._clock = clock
        self._pause = pause
        self._client = HttpClient(connect=10.0, silence=20.0, total=30.0)
        self._posting: dict[str, asyncio.Task[None]] = {}
        """By request: those that were begun here, delivered or not."""

    def tell(self, question: Confirmation) -> None:
        """Post a question, unless that was done here before."""
        if question.request not in self._posting and question.form is None:
            self._posting[question.request] = asyncio.create_task(self._post(question))

    async def aclose(self) -> None:
        for task in self._posting.values():
            task.cancel()
        await asyncio.gather(*self._posting.values(), return_exceptions=True)
        await self._client.aclose()

    async def _post(self, question: Confirmation) -> None:
        body = msgspec.json.encode(self._message(question))
        for tries in range(1, TRIES + 1):
            try:
                status = await self._send(question.request, body)
            except (OSError, TimeoutError, BadHttpAnswer, ValueError) as error:
                status, why = 0, type(error).__name__
            else:
                why = f"it answered {status}"
            if 200 <= status < 300:
                return
            if 300 <= status < 500 and status not in _AGAIN:
                logger.warning("the approval webhook does not take %s: %s", question.request, why)
                break
            if tries < TRIES:
                await asyncio.sleep(self._pause(tries))
        else:
            logger.warning("the approval webhook could not be told of %s: %s", question.request, why)
        self._posting.pop(question.request, None)  # asked again, it is told again

    async def _send(self, id: str, body: bytes) -> int:
        address, seconds = HttpAddress.of(self._url), self._clock.now() // 1000
        headers = {"content-type": "application/json", "webhook-id": id, "webhook-timestamp": str(seconds)}
        if self._secret is not None:
            headers["webhook-signature"] = signature(self._secret, id, seconds, body)
        answer = await self._client.ask(address, request_head("POST", address, headers), body)
        answer.close()
        return answer.status

    def _message(self, question: Confirmation) -> dict[str, Any]:
        now = self._clock.now()
        expires = now + int(self._settings.expires * 1000)
        links = self._link_urls(question, expires)
        arguments = redact_text(exact_json(question.shown))
        cut = arguments if len(arguments) <= _SHOWN else f"{arguments[:_SHOWN]}…"
        because = f", because {printable(question.why)}" if question.why else ""
        title = f"{printable(question.tool)} asks to run{because}"[:_LONGEST_TITLE]
        how = f"Answer with: handrail confirm allow {question.request}"
        data = {
            "request": question.request,
            "run": question.run,
            "call_id": question.call_id,
            "tool": question.tool,
            "arguments": cut,
            "why": question.why,
            "agents": list(question.agents),
            "expires": _iso(expires),
            "links": links,
        }
        return {
            "type": "approval.requested",
            "timestamp": _iso(now),
            "data": data,
            "text": _slack(f"{title}\n{cut}\n{links.get('show', how)}"),
            "blocks": _blocks(title, cut, links, how),
        }

    def _link_urls(self, question: Confirmation, expires: int) -> dict[str, str]:
        if self._links is None or self._settings.address is None:
            return {}
        base = self._settings.address.rstrip("/") + PATH
        kinds: tuple[LinkKind, ...] = ("show", "allow", "deny")
        shown = ApprovalLink(run=question.run, request=question.request, binds=question.binds, expires=expires)
        return {kind: base + self._links.token(replace(shown, kind=kind)) for kind in kinds}


class TellingApprover:
    """Asks another approver, and tells the webhook of what that leaves open."""

    def __init__(self, inner: Approver, webhook: ApprovalWebhook) -> None:
        self._inner = inner
        self._webhook = webhook

    async def decide(self, question: Confirmation) -> Decision:
        decision = await self._inner.decide(question)
        if isinstance(decision, Defer):
            self._webhook.tell(question)
        return decision


def _iso(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat()


def _slack(text: str) -> str:
    """The text without anything that Slack would read as a mention or a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _blocks(title: str, arguments: str, links: dict[str, str], how: str) -> list[dict[str, Any]]:
    def plain(text: str) -> dict[str, Any]:
        return {"type": "plain_text", "text": text, "emoji": False}

    blocks: list[dict[str, Any]] = [{"type": "section", "text": plain(f"{title}\n{arguments}"[:3000])}]
    if not links:
        return [*blocks, {"type": "section", "text": plain(how)}]
    names = {"allow": "Look and allow", "deny": "Look and deny"}
    buttons = [{"type": "button", "text": plain(names[kind]), "url": links[kind]} for kind in names]
    return [*blocks, {"type": "actions", "elements": buttons}]
