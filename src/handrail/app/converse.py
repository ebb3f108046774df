"""The `converse` tool: a model with its tools as one tool, for clients of this node over MCP.

What the model does inside is a run of its own, on record like any other. Its calls are
confirmed by the person behind the client, call by call; so the tool itself needs no word.
It may call what its caller may; `converse = { tools = […] }` lends it others, for callers
who may have them only through a model. No model may call it: it would be a model
that talks to itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from handrail.app.mcp_resources import owner_prefix, owns_conversation
from handrail.config.mcp import ConverseSettings
from handrail.core.confirmation import Confirmation, Decision, Defer
from handrail.core.context import Context, Principal
from handrail.core.errors import HandrailError, ToolError, UsageError
from handrail.core.events import (
    CallIntended,
    CallSettled,
    ConfirmationAnswered,
    ConfirmationRequested,
    Event,
    ReplyFinished,
)
from handrail.core.ids import NewId, new_id
from handrail.core.invocation import Invocation
from handrail.core.messages import Conversation
from handrail.core.tasks import run_to_completion
from handrail.mcp.server.client_approver import FORM, ClientApprover, decision_from_form, question_text
from handrail.mcp.server.client_questions import KEY, ClientAsk
from handrail.sessions.store.port import Conversations
from handrail.tools.masking import masked_messages
from handrail.tools.registry import RegisteredTools
from handrail.tools.tool import Tool

if TYPE_CHECKING:
    from handrail.app.app import App
    from handrail.sessions.llm import LLM

logger = logging.getLogger(__name__)

SECONDS = 600.0
"""How long one answer may take; a person's time to confirm something does not count."""
_SAYS = (
    "Talk with {model}, which has its own tools{tools}. To continue a conversation, give `conversation` as it was"
    " returned."
)
_INPUT = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "minLength": 1, "description": "What you say."},
        "conversation": {"type": "string", "description": "The id of a conversation to continue."},
    },
    "required": ["message"],
    "additionalProperties": False,
}
_OUTPUT = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "What was answered."},
        "conversation": {"type": "string", "description": "The id with which to continue it."},
        "run": {"type": "string", "description": "The run in the record."},
        "waiting": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Calls that were not made: each waits for a person's approval; says how to give it.",
        },
    },
    "required": ["text", "conversation", "run"],
}


class ConverseTool:
    """Makes the tool for the tools that there are, and does its work."""

    def __init__(self, settings: ConverseSettings, asker: ClientApprover, new_id: NewId = new_id) -> None:
        self._settings = settings
        self._asker = asker
        self._new_id = new_id
        self._app: App | None = None
        self._llm: LLM | None = None
        self._made: dict[bool, Tool] = {}
        self._busy: set[str] = set()

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def model(self) -> str | None:
        return self._settings.model

    def begin(self, app: App, llm: LLM) -> None:
        """Gives the tool what it needs to answer; from now on it can be called."""
        self._app, self._llm = app, llm

    def tools(self, others: RegisteredTools) -> tuple[Tool, ...]:
        """The tool beside these: it changes something if one of them does."""
        writes = any(not tool.reads for tool in others)
        if writes not in self._made:
            self._made[writes] = self._tool(writes)
        return (self._made[writes],)

    def _tool(self, writes: bool) -> Tool:
        settings = self._settings
        says = settings.description or _SAYS.format(
            model=settings.model or "the model of this node",
            tools=", and asks you before it changes something" if writes else "",
        )
        return Tool.from_function(
            self._converse,
            name=settings.name,
            description=says,
            schema=_INPUT,
            output_schema=_OUTPUT,
            side_effects=writes,
            untrusted=True,
            own=("conversation", "run"),
            timeout=SECONDS,
            style="invocation",
            share=False,
            models=(),
            tags=("long",),
        )

    async def _converse(self, invocation: Invocation) -> dict[str, Any]:
        app, llm = self._app, self._llm
        if app is None or llm is None:
            raise ToolError("NOT_READY", "the node is still starting; try again")
        store = await asyncio.to_thread(app.state.conversations)
        principal = invocation.context.principal.id
        id = invocation.arguments.get("conversation") or f"{owner_prefix(principal)}{self._new_id('conversation')}"
        if not owns_conversation(principal, id):
            raise _unknown(id)
        if id in self._busy:
            raise ToolError("BUSY", f"conversation {id!r} is at work on another message; wait for it")
        self._busy.add(id)
        try:
            return await self._turn(app, llm, store, id, invocation)
        finally:
            self._busy.discard(id)

    async def _turn(self, app: App, llm: LLM, store: Conversations, id: str, invocation: Invocation) -> dict[str, Any]:
        conversation = await self._begun(store, invocation.arguments.get("conversation"))
        conversation = conversation.say(invocation.arguments["message"], at=app.executor.runs.now())
        above, run = invocation.context, self._new_id("run")
        client = invocation.auxdata.get(KEY)
        through = _ClientApprover(client if isinstance(client, ClientAsk) else None, above.principal.id)
        telling = _ProgressTeller(invocation)

        def follow(now: Conversation) -> None:
            nonlocal conversation
            conversation = now

        try:
            with self._asker.during(through):
                running = app.runner(llm).run(conversation, self._context(above, run), telling, follow=follow)
                conversation = await running
        except HandrailError as error:
            words = f"{error}; the conversation so far is {id!r}, and what was done in it is done"
            raise ToolError("MODEL_FAILED", words) from error
        finally:
            # Also what failed or was cancelled: a model that does not know what it has done would do it again.
            await run_to_completion(_ended(app, store, id, conversation, run))
        waiting = {"waiting": list(telling.waiting.values())} if telling.waiting else {}
        return {"text": conversation.text, "conversation": id, "run": run, **waiting}

    def _context(self, above: Context, run: str) -> Context:
        """The rights of the caller, as narrow as the calls above have made them, or else those that are lent."""
        lent = self._settings.tools
        if lent is None:
            return Context(
                run=run,
                principal=above.principal,
                scopes=above.scopes,
                within=above.within,
                deadline=above.deadline,
                depth=above.depth + 1,
            )
        principal = Principal(above.principal.id, lent)
        return Context(run=run, principal=principal, deadline=above.deadline, depth=above.depth + 1)

    async def _begun(self, store: Conversations, id: str | None) -> Conversation:
        if id is None:
            return Conversation().supervised(self._settings.system) if self._settings.system else Conversation()
        try:
            return await asyncio.to_thread(store.load, id)
        except UsageError as error:
            raise _unknown(id) from error
        except HandrailError as error:
            logger.warning("a conversation cannot be gone on with: %s", error)
            raise ToolError("NO_CONVERSATION", f"conversation {id!r} is damaged; begin another") from error


def _unknown(id: str) -> ToolError:
    """The same words for one that is not there and for one that is somebody else's."""
    return ToolError("NO_CONVERSATION", f"there is no conversation {id!r}; leave it out to begin one")


async def _ended(app: App, store: Conversations, id: str, conversation: Conversation, run: str) -> None:
    masked = Conversation(masked_messages(conversation.messages, app.executor.runs.tools_of(run)))
    try:
        await asyncio.to_thread(store.save, id, masked)
    finally:
        await app.executor.finish(run)


class _ClientApprover:
    """Asks the person behind the client in the middle of the call, in either era."""

    def __init__(self, client: ClientAsk | None, by: str) -> None:
        self._client = client
        self._by = by

    async def decide(self, question: Confirmation) -> Decision:
        if self._client is None or not self._client.can("elicitation") or question.form is not None:
            return Defer()
        message = question_text(question)
        if message is None:
            return Defer()
        answer = await self._client.elicit(message, FORM, key=f"confirm-{question.request}")
        return decision_from_form(answer.action, answer.values, question, f"{self._by} by an MCP client")


class _ProgressTeller:
    """Tells the caller how far the conversation is, step by step."""

    def __init__(self, invocation: Invocation) -> None:
        self.waiting: dict[str, str] = {}
        """What nobody could be asked about, by the question, and how to answer it. Only the model was told so far."""
        self._report: Callable[..., None] = invocation.progress
        self._steps = 0

    async def __call__(self, event: Event) -> None:
        match event:
            case ConfirmationRequested(request=request, tool=tool, run=run):
                how = f"handrail confirm allow {request}, and then: handrail resume {run}"
                self.waiting[request] = f"{tool} was not called; a person may allow it with: {how}"
            case ConfirmationAnswered(request=request):
                self.waiting.pop(request, None)
        if (said := _stage(event)) is not None:
            self._steps += 1
            self._report(self._steps, None, said)


def _stage(event: Any) -> str | None:
    match event:
        case CallIntended(tool=tool):
            return f"calls {tool}"
        case CallSettled(tool=tool, outcome=outcome):
            return f"{tool}: {outcome}"
        case ReplyFinished():
            return "has replied"
    return None
