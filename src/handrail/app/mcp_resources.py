"""The resources that a node serves over MCP: saved conversations, and the proofs of runs. Callers see their own."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Sequence
from contextvars import ContextVar
from itertools import islice
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from handrail.core.canonical import digest
from handrail.core.context import LOCAL
from handrail.core.errors import UsageError
from handrail.core.events import RunStarted
from handrail.core.messages import (
    AssistantMessage,
    Conversation,
    DocumentMessage,
    InvocationMessage,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.journal.auditing import export_run
from handrail.journal.journal import BatchedJournal
from handrail.journal.reader import JournalReader
from handrail.mcp.values import RemoteResource, ResourceBody
from handrail.sessions.store.port import Conversations

_MARKED = re.compile(r"of-[0-9a-f]{16}\.")


class CurrentCaller:
    """The sender of the request that is being answered. It travels with the task that answers it."""

    def __init__(self) -> None:
        self._principal: ContextVar[str | None] = ContextVar("handrail-asking", default=None)

    def now(self, principal: str) -> None:
        """This one asks from here on."""
        self._principal.set(principal)

    def owns_conversation(self, id: str) -> bool:
        """Whether the caller owns a conversation. A conversation without an owner belongs to nobody."""
        principal = self._principal.get()
        return principal is not None and owns_conversation(principal, id)

    def owns_run(self, reader: JournalReader, run: str) -> bool:
        first = next(reader.events(run), None)
        return isinstance(first, RunStarted) and first.principal == self._principal.get()


def owner_prefix(principal: str) -> str:
    """What the ids of a caller's conversations begin with."""
    return "" if principal == LOCAL.id else f"of-{digest(principal).rpartition(':')[2][:16]}."


def owns_conversation(principal: str, id: str) -> bool:
    marked = _MARKED.match(id)
    return (marked[0] if marked else "") == owner_prefix(principal)


_CONVERSATION, _PROOF = "conversation://", "proof://"
_MOST = 1_000
"""The most resources of a kind that are listed: the latest ones."""


class ConversationResources:
    """Saved conversations as text, `conversation://<id>`."""

    def __init__(self, store: Conversations, asking: CurrentCaller) -> None:
        self._store = store
        self._asking = asking

    async def list(self) -> Sequence[RemoteResource]:
        found = [each for each in await asyncio.to_thread(self._store.list) if self._asking.owns_conversation(each.id)]
        template = RemoteResource(
            uri=f"{_CONVERSATION}{{id}}", name="conversation", description="A saved conversation", template=True
        )
        return [template, *(_about(each.id, each.title, each.messages) for each in found[:_MOST])]

    async def read(self, uri: str) -> Sequence[ResourceBody] | None:
        if not uri.startswith(_CONVERSATION):
            return None
        id = unquote(uri.removeprefix(_CONVERSATION))
        if not self._asking.owns_conversation(id):
            return None
        try:
            conversation = await asyncio.to_thread(self._store.load, id)
        except UsageError:
            return None
        return [ResourceBody(uri=uri, media_type="text/markdown", text=conversation_markdown(conversation))]


def _about(id: str, title: str, messages: int) -> RemoteResource:
    return RemoteResource(
        uri=f"{_CONVERSATION}{quote(id, safe='')}",
        name=title or id,
        description=f"A conversation of {messages} messages",
        media_type="text/markdown",
    )


def conversation_markdown(conversation: Conversation) -> str:
    """A conversation for people and models to read."""
    return "\n\n".join(f"**{who}**\n\n{words}" for who, words in map(_role_and_text, conversation.messages) if words)


def _role_and_text(message: Message) -> tuple[str, str]:
    match message:
        case UserMessage(content=content):
            return "user", "\n".join(
                each.text if isinstance(each, Text) else f"({each.media_type})" for each in content
            )
        case AssistantMessage(text=text):
            return "assistant", text
        case SupervisorMessage(text=text):
            return "supervisor", text
        case DocumentMessage(name=name, text=text):
            return f"document {name}", text
        case InvocationMessage(call=call):
            return f"calls {call.name}", msgspec.json.encode(call.arguments).decode()
        case ResultMessage(result=result):
            return f"{result.name}: {result.outcome}", result.text


class ProofResources:
    """The runs of a journal as proof bundles, `proof://<run>`: the lines of the bundle, and its signed checkpoint."""

    def __init__(self, journal: BatchedJournal, asking: CurrentCaller) -> None:
        self._journal = journal
        self._asking = asking
        self._one_at_a_time = asyncio.Lock()
        """A bundle is made in a folder of its own: many at once would fill the disk."""

    async def list(self) -> Sequence[RemoteResource]:
        return await asyncio.to_thread(self._list)

    def _list(self) -> Sequence[RemoteResource]:
        with JournalReader(self._journal.path) as reader:
            own = (run for run in reader.newest_runs() if self._asking.owns_run(reader, run))
            runs = [(run, sum(each.answer is not None for each in reader.calls(run))) for run in islice(own, _MOST)]
        template = RemoteResource(
            uri=f"{_PROOF}{{run}}", name="proof", description="The proof bundle of a run", template=True
        )
        return [template, *(_proof(run, calls) for run, calls in runs)]

    async def read(self, uri: str) -> Sequence[ResourceBody] | None:
        if not uri.startswith(_PROOF):
            return None
        run = unquote(uri.removeprefix(_PROOF))
        async with self._one_at_a_time:
            return await asyncio.to_thread(self._read, uri, run)

    def _read(self, uri: str, run: str) -> Sequence[ResourceBody] | None:
        with JournalReader(self._journal.path) as reader:
            if not self._asking.owns_run(reader, run):
                return None
        with tempfile.TemporaryDirectory(prefix="handrail-proof-") as folder:
            bundle = export_run(self._journal.path, run, Path(folder) / "bundle")
            lines = (bundle / "bundle.jsonl").read_text(encoding="utf-8")
            checkpoint = (bundle / "checkpoint").read_text(encoding="utf-8")
        return [
            ResourceBody(uri=uri, media_type="application/jsonl", text=lines),
            ResourceBody(uri=f"{uri}#checkpoint", media_type="text/plain", text=checkpoint),
        ]


def _proof(run: str, calls: int) -> RemoteResource:
    return RemoteResource(
        uri=f"{_PROOF}{quote(run, safe='')}", name=run, description=f"{calls} calls", media_type="application/jsonl"
    )
