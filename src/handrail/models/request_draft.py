"""What the encoders of all wires share while they write a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.models.codec import EncodedList, Framing, WireRequest
from handrail.models.conversation_cache import WrittenTurns, write_conversation
from handrail.models.profiles import Profile
from handrail.models.shared_encoding import named_settings, names_of, with_builtin, with_extra
from handrail.models.supported_features import supported_tools, unsupported_setting_notices, with_supported_settings
from handrail.models.tool_names import NameRule
from handrail.models.turn_writer import TurnWriter


class RequestDraft:
    """A request being written: its tools, names and turns, and notices about what the wire cannot express."""

    def __init__(
        self,
        request: ModelRequest,
        profile: Profile,
        rule: NameRule,
        *,
        searches: bool = False,
        runs_programs: bool = False,
    ) -> None:
        """`searches` and `runs_programs` say what the wire can ask of its service.

        Raises:
            UsageError: The choice names a tool that is not offered.
        """
        self.request = request
        self.profile = profile
        self.names = names_of(request.tools, rule)
        self.offer = supported_tools(request, profile, searches=searches, runs_programs=runs_programs)
        self.notices = [*self.offer.notices, *unsupported_setting_notices(request, profile)]
        self.said = WrittenTurns([])
        self.known: tuple[EncodedList, ...] = ()
        """Parts of the body that are written already, beside the conversation."""

    @property
    def tools(self) -> tuple[ToolOffer, ...]:
        """The tools that are sent."""
        return self.offer.tools

    def write(self, writer: type[TurnWriter], *given: Any, provider: str, ids: NameRule | None = None) -> WrittenTurns:
        """Write the conversation; `given` is what the writer takes beside the profile and the names."""
        self.said = write_conversation(
            self.request,
            writer.write,
            self.profile,
            self.names,
            *given,
            provider=provider,
            tools_offered=bool(self.tools),
            ids=ids,
        )
        return self.said

    def put_tools(
        self,
        body: dict[str, Any],
        own: tuple[EncodedList, tuple[str, ...]] | None,
        builtin: tuple[dict[str, Any], ...] = (),
    ) -> None:
        """Put the tools into the body: those of the service, and our own with what could not be said of them."""
        if own is not None:
            self.notices += own[1]
        if (tools := with_builtin(None if own is None else own[0], builtin)) is not None:
            body["tools"] = tools.items
            self.known = (tools,)

    def settings(self, names: Mapping[str, str]) -> dict[str, Any]:
        """The settings that this model takes, by the names of the wire."""
        return named_settings(with_supported_settings(self.request, self.profile), names)

    def finish(
        self,
        path: str,
        body: dict[str, Any],
        *,
        stream: bool,
        framing: Framing = "sse",
        headers: Mapping[str, str] = {},
        exact: bool = True,
    ) -> WireRequest:
        """The whole request; `framing` is that of a stream.

        Raises:
            UsageError: The caller's own fields would replace the tools.
        """
        return WireRequest(
            path=path,
            body=with_extra(body, self.request.extra),
            headers=dict(headers),
            framing=framing if stream else "json",
            exact=exact,
            notices=(*self.notices, *self.said.missed),
            known=(*self.known, *self.said.known),
        )
