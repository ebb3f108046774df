"""The `converse` tool: a model with its tools as one tool, for whoever is given this node over MCP.

What the model does inside is a run of its own, on record like any other. Its calls are
confirmed by the person behind the client, call by call; so the tool itself needs no word.
It may call what its caller may; `converse = { tools = […] }` lends it others, for callers
who may have them only through a model. No model may call it: it would be a model
that talks to itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from handrail.config.nodes import Converse
from handrail.core.confirmation import Allow, Confirmation, Decision, Defer, Deny
from handrail.core.context import Context, Principal
from handrail.core.errors import HandrailError, ToolError
from handrail.core.events import CallIntended, CallSettled, Event, ReplyFinished
from handrail.core.ids import NewId, new_id
from handrail.core.invocation import Invocation
from handrail.core.messages import Conversation
from handrail.mcp.server.asker import ClientApprover
from handrail.mcp.server.asks import KEY, ClientAsk
from handrail.store.conversations import ConversationStore
from handrail.tools.registry import RegisteredTools
from handrail.tools.tool import Tool

if TYPE_CHECKING:
    from handrail.app.opened import App
    from handrail.faces.llm import LLM

SECONDS = 600.0
"""How long a conversation may take where no limit says otherwise."""
_SAYS = (
    "Talk with {model}, which has tools of its own{tools}. Give `conversation` as it was returned to go on with one."
)
_INPUT = {
    "type": "object",
    "properties": {
        "message": {"type": "string", "minLength": 1, "description": "What you say."},
        "conversation": {"type": "string", "description": "The id of a conversation to go on with."},
    },
    "required": ["message"],
    "additionalProperties": False,
}
_OUTPUT = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "What was answered."},
        "conversation": {"type": "string", "description": "The id by which it goes on."},
        "run": {"type": "string", "description": "The run in the record."},
    },
    "required": ["text", "conversation", "run"],
}
_FORM = {"type": "object", "properties": {"allow": {"type": "boolean", "title": "Allow this call", "default": True}}}
_LONGEST = 2_000


class Converser:
    """Makes the tool for the tools that there are, and does its work."""

    def __init__(self, settings: Converse, asker: ClientApprover, new_id: NewId = new_id) -> None:
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
        """From now on it can be called."""
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
            timeout=SECONDS,
            style="invocation",
            share=False,
            models=(),
            tags=("long",),
        )

    async def _converse(self, invocation: Invocation) -> dict[str, str]:
        app, llm = self._app, self._llm
        if app is None or llm is None:
            raise ToolError("NOT_READY", "the node is still starting; try again")
        store = ConversationStore(app.journal.path.parent)
        id = invocation.arguments.get("conversation") or self._new_id("conversation")
        if id in self._busy:
            raise ToolError("BUSY", f"conversation {id!r} is at work on another message; wait for it")
        self._busy.add(id)
        try:
            return await self._turn(app, llm, store, id, invocation)
        finally:
            self._busy.discard(id)

    async def _turn(
        self, app: App, llm: LLM, store: ConversationStore, id: str, invocation: Invocation
    ) -> dict[str, str]:
        conversation = await self._begun(store, invocation.arguments.get("conversation"))
        conversation = conversation.say(invocation.arguments["message"], at=app.executor.now())
        run = self._new_id("run")
        above = invocation.context
        context = Context(
            run=run,
            principal=Principal(above.principal.id, self._scopes(above)),
            deadline=above.deadline,
            depth=above.depth + 1,
        )
        client = invocation.auxdata.get(KEY)
        try:
            with self._asker.during(_Through(client if isinstance(client, ClientAsk) else None, above.principal.id)):
                ended = await app.runner(llm).run(conversation, context, _Telling(invocation))
        except HandrailError as error:
            raise ToolError("MODEL_FAILED", str(error)) from error
        finally:
            await app.executor.finish(run)
        await asyncio.to_thread(store.save, id, ended)
        return {"text": ended.text, "conversation": id, "run": run}

    def _scopes(self, above: Context) -> tuple[str, ...] | None:
        lent = self._settings.tools
        return above.principal.scopes if lent is None else lent

    async def _begun(self, store: ConversationStore, id: str | None) -> Conversation:
        if id is None:
            return Conversation().supervised(self._settings.system) if self._settings.system else Conversation()
        try:
            return await asyncio.to_thread(store.load, id)
        except HandrailError as error:
            raise ToolError("NO_CONVERSATION", str(error)) from error


class _Through:
    """Asks the person behind the client in the middle of the call, in either era."""

    def __init__(self, client: ClientAsk | None, by: str) -> None:
        self._client = client
        self._by = by

    async def decide(self, question: Confirmation) -> Decision:
        if self._client is None or not self._client.can("elicitation") or question.form is not None:
            return Defer()
        answer = await self._client.elicit(_words(question), _FORM, key=f"confirm-{question.request}")
        match answer.action:
            case "accept" if answer.values.get("allow", True) is True:
                return Allow(f"{self._by} by an MCP client")
            case "cancel":
                return Defer()
        return Deny(f"{self._by} by an MCP client", "declined when asked")


def _words(question: Confirmation) -> str:
    written = msgspec.json.encode(question.arguments).decode()
    shown = written if len(written) <= _LONGEST else f"{written[:_LONGEST]}… ({len(written):,} characters in all)"
    lines = (
        f"The model wants to call {question.tool!r}. Allow it?",
        question.description.split("\n", 1)[0],
        f"Arguments: {shown}",
        f"You are asked because {question.why}." if question.why else "",
    )
    return "\n".join(filter(None, lines))


class _Telling:
    """Tells the caller how far the conversation is, step by step."""

    def __init__(self, invocation: Invocation) -> None:
        self._report: Callable[..., None] = invocation.progress
        self._steps = 0

    async def __call__(self, event: Event) -> None:
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
