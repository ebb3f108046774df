"""What handrail serves to MCP clients, without using the MCP library: an app fills it in, `build` reads it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from msgspec import Struct

from handrail.core.calls import Attachment
from handrail.core.context import LOCAL, Principal
from handrail.core.errors import UsageError
from handrail.core.ports import Invoker, Spill
from handrail.mcp.server.client_approver import ClientApprover
from handrail.mcp.server.client_questions import ClientAsk
from handrail.mcp.values import RemoteResource, ResourceBody, ServerFacts
from handrail.tools.finder import FIND_TOOLS
from handrail.tools.registry import RegisteredTools

if TYPE_CHECKING:
    from handrail.mcp.server.client_relay import McpClientRelay

Listed = Literal["tools", "resources", "prompts"]
Complete = Callable[[str, str, Mapping[str, str]], Awaitable[Sequence[str]]]
"""The name of an argument, what of it is written, the other arguments: what it may become."""

CALL_TOOL = "call_tool"
"""What clients call, beside `find_tools`, in place of all tools."""


class McpCaller(Struct, frozen=True, kw_only=True):
    """The sender of a request, as far as the wire tells. Only `subject` was checked by anybody."""

    protocol: str
    client: str = ""
    """What the program calls itself, and its version."""
    version: str = ""
    session: str | None = None
    """The session of a client that shook hands over HTTP."""
    connection: str = ""
    """The address and port from which it connected, over HTTP."""
    subject: str | None = None
    """The subject of a token that the transport has checked."""
    headers: Mapping[str, str] = {}
    local: bool = False
    """Spoken to over pipes of this process, so whoever started it."""


class FirstWords(Struct, frozen=True):
    """What the first message of a client tells of it."""

    capabilities: dict[str, Any] = {}
    shakes_hands: bool = False
    """Whether it speaks the older era, which begins with `initialize`."""


class ResourceSource(Protocol):
    """Something that can be read. Its errors are HandrailErrors or OSErrors; anything else is taken for a bug."""

    async def list(self) -> Sequence[RemoteResource]:
        """What it has now, templates included."""
        ...

    async def read(self, uri: str) -> Sequence[ResourceBody] | None:
        """The contents, or None if the address is none of its own."""
        ...


@runtime_checkable
class ChangingSource(Protocol):
    """What a source may be besides: one that says when something of it changes."""

    def watch(self, changed: Callable[[str | None], None]) -> Callable[[], None]:
        """Call `changed` in the loop with an address, or with None for the list; what is returned ends that."""
        ...


@runtime_checkable
class CompletingSource(Protocol):
    """What a source may be besides: one that completes the names in its templates."""

    async def complete(self, template: str, argument: str, value: str) -> Sequence[str] | None:
        """What the value may become, or None if the template is none of its own."""
        ...


class PromptArgument(Struct, frozen=True):
    """An argument that a client fills in when it asks for a prompt."""

    name: str
    description: str = ""
    required: bool = False


class PromptMessage(Struct, frozen=True):
    """One message of a prompt. An attachment whose name is an address is sent under that address."""

    content: str | Attachment
    role: Literal["user", "assistant"] = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPrompt:
    """A prompt that a person may pick in the client."""

    name: str
    render: Callable[[Mapping[str, str]], Awaitable[Sequence[PromptMessage]]]
    """Called with arguments that were checked against `arguments`."""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()
    complete: Complete | None = None
    interview: Callable[[Mapping[str, str], ClientAsk], Awaitable[Sequence[PromptMessage]]] | None = None
    """Called instead of `render` if given: it may ask the client first. It may run several times for one answer."""


class ServerBehind(Protocol):
    """An MCP server that we stand before. Its tools are called through the executor; the rest passes as it is."""

    @property
    def name(self) -> str: ...

    @property
    def prefix(self) -> str:
        """Before the names of its tools and prompts."""
        ...

    @property
    def facts(self) -> ServerFacts | None:
        """What it says of itself; None if it was never reached."""
        ...

    async def request(
        self, method: str, params: Mapping[str, Any], on_progress: Callable[..., Awaitable[None]] | None = None
    ) -> dict[str, Any]:
        """Ask it, and get what it says, as it says it. What it refuses with is an `MCPError`, as it came."""
        ...

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell it something; where it is not there, nobody is told."""
        ...

    async def watch(self, uri: str) -> None:
        """Hear of changes of a resource, as notices."""
        ...

    async def unwatch(self, uri: str) -> None: ...


def check_names(tools: RegisteredTools) -> None:
    """Checks that no tool has the name of one of the two that stand for all.

    Raises:
        UsageError: One has.
    """
    for name in (FIND_TOOLS, CALL_TOOL):
        if name in tools:
            raise UsageError(f"a tool is called {name!r}, which is needed to search tools; give its server a prefix")


class ChangeNotices:
    """Carries changes from the app to the servers that are up."""

    def __init__(self) -> None:
        self._listeners: dict[object, Callable[[Listed | None, str], None]] = {}

    def changed(self, what: Listed) -> None:
        """The list of tools, resources or prompts is another now."""
        self._tell(what, "")

    def updated(self, uri: str) -> None:
        """What is at this address is another now."""
        self._tell(None, uri)

    def listen(self, listener: Callable[[Listed | None, str], None]) -> Callable[[], None]:
        """Hear of every change, in the loop; what is returned ends that."""
        key = object()
        self._listeners[key] = listener
        return lambda: self._listeners.pop(key, None) and None

    def _tell(self, what: Listed | None, uri: str) -> None:
        for listener in tuple(self._listeners.values()):
            listener(what, uri)


def local_principal(caller: McpCaller) -> Principal:
    """Everybody is the one who runs this program."""
    return LOCAL


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerDefinition:
    """Everything that a server needs. Tools run through `invoker`, so they are checked, confirmed and recorded."""

    name: str
    version: str
    instructions: str = ""
    tools: Callable[[], RegisteredTools]
    """The set for new calls, now."""
    searched: bool = False
    """Whether clients get `find_tools`, which must be among the tools, and `call_tool` in place of all of them."""
    invoker: Invoker
    asker: ClientApprover
    """The approver that asks the client of the call in flight; the invoker must end up with it."""
    resources: tuple[ResourceSource, ...] = ()
    prompts: tuple[ServedPrompt, ...] = ()
    principal: Callable[[McpCaller], Principal] = local_principal
    """Gives the principal of a caller. Resources and prompts are covered by scopes `resource:<uri>` and
    `prompt:<name>`."""
    spill: Spill | None = None
    """The store of the invoker's long outputs, to send whole what must be whole."""
    finish: Callable[[str], Awaitable[None]] | None = None
    """Ends a run that gets no more calls; the executor's `finish`.

    Leave it out where there is no journal: the run would be forgotten, and a call of it that is sent again would run.
    """
    confirm_options: str = ""
    """What stands behind `handrail confirm allow REQUEST` where a client is told of it, as ` --journal PATH`."""
    notices: ChangeNotices = field(default_factory=ChangeNotices)
    behind: Callable[[], Sequence[ServerBehind]] = tuple
    """The servers that we stand before, in the order in which they are asked where several may have an answer."""
    relay: McpClientRelay | None = None
    """What these servers ask of their clients, and say to them by themselves, goes this way."""
