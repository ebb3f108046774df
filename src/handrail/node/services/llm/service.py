"""The capabilities of models: `llm.chat@1.0`, `llm.chat@2.0` and `llm.tools.call@1.0`.

One call of `llm.chat` is one reply; who wants tools to be run calls again with their
results. Only where the caller can answer in mid-stream does the same call go on.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from handrail.core.errors import BusError, ModelError, UsageError
from handrail.core.ids import NewId, new_id
from handrail.core.messages import Media
from handrail.core.ports import Model
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import Handler, Predicate
from handrail.node.bus.request import RouteRequest
from handrail.node.bus.versions import Version, split_name, version_of
from handrail.node.chat.frames import bus_error
from handrail.node.chat.messages import pictures_in
from handrail.node.chat.request import request_of
from handrail.node.chat.schema import CHAT, MAX_TOOLS, RESPONSE, STREAM, V1, V2, request_schema
from handrail.node.services.llm.interactive_chat import converse_with
from handrail.node.services.llm.reply import send_reply
from handrail.node.services.schema_parts import TEXT, array, closed_object, request_schema_of

Models = Mapping[str, Model] | Callable[[str], Model]
"""The models by name; a function raises `UsageError` or `KeyError` for a name that it does not know."""
Offered = tuple[CapabilityDescriptor, Handler] | tuple[CapabilityDescriptor, Handler, Predicate]
ReadBlob = Callable[[RouteRequest, str], Awaitable[tuple[str, bytes]]]
"""The media type and the bytes of a blob that the caller may read."""

TOOLS_CALL = CapabilityDescriptor(
    name="llm.tools.call",
    description="Call another capability, as a tool would, and return its response.",
    request_schema=request_schema_of(
        closed_object(
            {
                "tool_call_id": TEXT,
                "target_capability": {
                    "type": "string",
                    "description": "The capability, such as rag.query@1.0 or rag.query.",
                },
                "target_version": {
                    "description": "The version, if the name has none: 1.0 or [1, 0].",
                    "anyOf": [TEXT, array({"type": "integer"}, minItems=2, maxItems=2)],
                },
                "target_body": {"type": "object", "description": "The whole body of the call, or only its input."},
            },
            ["target_capability", "target_body"],
        ),
        {"type": "object"},
    ),
    max_concurrent=64,
    timeout_seconds=300.0,
    side_effects=True,  # it may be whatever its target is
)


async def read_blob(request: RouteRequest, cid: str) -> tuple[str, bytes]:
    """Reads a blob with `blob.get`, wherever it is served, for the same caller."""
    response = await request.call("blob.get", (1, 0), {"input": {"cid": cid}})
    found, data = response["output"], response["output"]["data"]
    return found["media_type"], base64.urlsafe_b64decode(data + "=" * (-len(data) % 4))


class LlmService:
    """Models as capabilities."""

    def __init__(
        self,
        models: Models,
        *,
        default: str | None = None,
        ctx: int | None = None,
        modalities: tuple[str, ...] = ("text",),
        tools_supported: bool = True,
        max_tools_per_call: int = MAX_TOOLS,
        max_iterations: int = 6,
        requires_internet: bool = False,
        max_concurrent: int = 8,
        timeout_seconds: float = 300.0,
        read_blob: ReadBlob = read_blob,
        new_id: NewId = new_id,
    ) -> None:
        """`default` answers who names none; of a single model it is that. `ctx` is the largest context they take.

        Raises:
            UsageError: The default is not among the models.
        """
        self._models = models
        self._default = _default(models, default)
        self._ctx = ctx
        self._modalities = modalities
        self._max_iterations = max_iterations
        self._max_tools = max_tools_per_call
        self._concurrent = max_concurrent
        self._timeout = timeout_seconds
        self._read_blob = read_blob
        self._new_id = new_id
        self._facts = {
            **_named(models, self._default),
            **({"max_ctx": ctx} if ctx else {}),
            "modalities": list(modalities),
            "tools_supported": tools_supported,
            "max_tools_per_call": max_tools_per_call,
            "requires_internet": requires_internet,
        }

    def capabilities(self) -> Iterator[Offered]:
        yield self._chat(V1), self.chat, self._serves
        yield self._chat(V2), self.chat, self._serves
        yield TOOLS_CALL, self.tools_call

    def _chat(self, version: Version) -> CapabilityDescriptor:
        return CapabilityDescriptor(
            name=CHAT,
            version=version,
            description="Get one reply of a model to a conversation. The model may call the tools in the request.",
            request_schema=request_schema(version, self._max_tools),
            response_schema=RESPONSE,
            stream_schema=STREAM,
            params=self._facts,
            max_concurrent=self._concurrent,
            timeout_seconds=self._timeout,
            untrusted=True,
        )

    async def chat(self, request: RouteRequest) -> dict[str, Any]:
        """Both versions: the bus has held the body to the schema of the one that was asked for."""
        model = self._model(request.params.get("model"))
        self._check(request.params)
        asked = request_of(request.input, await self._pictures(request))
        try:
            if request.interactive and asked.tools and asked.tool_choice != "none":
                most = min(self._max_iterations, request.input.get("max_iterations", self._max_iterations))
                return await converse_with(model, asked, request, most, self._new_id)
            return await send_reply(model, asked, request, self._new_id)
        except ModelError as error:
            raise bus_error(error) from error

    async def tools_call(self, request: RouteRequest) -> dict[str, Any]:
        """Call the target for the same caller, one deeper. Its entry in the record bears the id of this call."""
        said: dict[str, Any] = request.input["target_body"]
        body = said if said.keys() <= {"params", "input"} else {"input": said}
        name, version = _target(request.input)
        return await request.call(name, version, body, call_id=f"{request.call_id}.target")

    def _serves(self, params: Mapping[str, Any]) -> bool:
        """Whether the model is here. A call for another one may go to another node."""
        try:
            self._model(params.get("model"))
        except BusError:
            return False
        return True

    def _model(self, name: Any) -> Model:
        wanted = name or self._default
        if wanted is None:
            raise BusError("bad_request", "this node has several models; name one in params.model")
        try:
            return self._models[wanted] if isinstance(self._models, Mapping) else self._models(wanted)
        except (KeyError, UsageError):
            raise BusError("not_found", f"there is no model {str(wanted)[:80]!r} here") from None

    def _check(self, params: Mapping[str, Any]) -> None:
        if self._ctx is not None and params.get("ctx", 0) > self._ctx:
            raise BusError("bad_request", f"params.ctx is at most {self._ctx} here, not {params['ctx']}")
        if missing := [each for each in params.get("modalities", ()) if each not in self._modalities]:
            raise BusError("not_implemented", f"the models here have no {', '.join(missing)}")

    async def _pictures(self, request: RouteRequest) -> dict[str, Media]:
        cids = pictures_in(request.input["messages"])
        if cids and "vision" not in self._modalities:
            raise BusError("not_implemented", "the models here cannot read pictures")
        found: dict[str, Media] = {}
        for cid in cids:
            media_type, data = await self._read_blob(request, cid)
            found[cid] = Media(media_type=media_type, data=data, name=cid)
        return found


def _target(said: Mapping[str, Any]) -> tuple[str, Version]:
    """The capability that is to be called, and its version.

    Raises:
        BusError: The name and `target_version` give two versions, or something that is none (`bad_request`).
    """
    name, version = split_name(said["target_capability"])
    if "target_version" not in said:
        return name, version
    given = said["target_version"]
    wanted = version_of(given if isinstance(given, str) else (given[0], given[1]))
    if "@" in said["target_capability"] and wanted != version:
        raise BusError("bad_request", "target_capability and target_version name two versions; keep one")
    return name, wanted


def _default(models: Models, default: str | None) -> str | None:
    if not isinstance(models, Mapping):
        return default
    if default is not None and default not in models:
        raise UsageError(f"the default model {default!r} is not among the models: {', '.join(models)}")
    return default or (next(iter(models)) if len(models) == 1 else None)


def _named(models: Models, default: str | None) -> dict[str, Any]:
    """What callers on other nodes choose by: the name, or the names, of the models."""
    names = list(models) if isinstance(models, Mapping) else [default] if default else []
    return {"model": names[0] if len(names) == 1 else names} if names else {}
