"""What a model asks for, and the one answer it gets."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from handrail.core.errors import Outcome, UsageError

JSON = Any
"""A JSON value: dict, list, str, int, float, bool or None. Spelt so where `Any` would hide the intent."""


class ToolCall(Struct, frozen=True):
    """A model's request to run one tool. Nothing in it has been checked."""

    id: str
    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    """An object, or the JSON text as the model wrote it: then the executor parses it, strictly."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ToolCall:
        """Read a call in any of the usual spellings: flat, OpenAI's, Anthropic's, nrv's."""
        source = data.get("function") if isinstance(data.get("function"), Mapping) else data
        name = _first(source, "name", "descriptor_name", "tool_name")
        # OpenAI's Responses have both: `id` names the item, and only `call_id` can be answered.
        identity = _first(data, "call_id", "id", "invocation_id", "tool_call_id")
        arguments = _first(source, "arguments", "input", "arguments_json", "args")
        if not isinstance(name, str):
            raise UsageError(f"a tool call needs a name; got the keys {sorted(data)}")
        if not isinstance(identity, str | int | None):
            raise UsageError(f"the id of a tool call is text, not {type(identity).__name__}")
        return cls("" if identity is None else str(identity), name, _object_or_text(arguments))

    def to_dict(self) -> dict[str, Any]:
        return {"id": self.id, "name": self.name, "arguments": self.arguments}


class Attachment(Struct, frozen=True):
    """Something that goes with a result and is not text: an image, a file."""

    name: str
    media_type: str
    data: bytes

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Attachment:
        return msgspec.convert(data, cls)


class Problem(Struct, frozen=True):
    """The error of a result: a code for programs, a message for people and models."""

    code: str
    message: str


class SpilledOutput(Struct, frozen=True):
    """The place of the whole output when the model was sent only a part."""

    id: str
    characters: int


class ResultLabels(Struct, frozen=True, omit_defaults=True):
    """Who writes the fields of a result, as its tool declares it. Fields are paths, as `comments[].text`."""

    untrusted: bool | tuple[str, ...] = False
    """Outsiders: the whole result, or these fields."""
    private: tuple[str, ...] = ()
    """Fields that must not leave for foreign places."""
    own: tuple[str, ...] = ()
    """Fields that the application itself writes, in a result that is untrusted else."""


class WithheldWords(Struct, frozen=True):
    """Words from outside that the model was not shown, and the handle that stands for them."""

    handle: str
    """The handle, as `{{words:0123456789ab}}`."""
    path: str
    """The field of the result, as `comments[2].text`; empty for all of it."""
    text: str


class ToolResult(Struct, frozen=True, omit_defaults=True):
    """The one answer to one call. A failure is an answer too."""

    tool_call_id: str
    name: str
    content: JSON = ""
    """Text, or JSON as the tool returned it; of a failure, words for the model."""
    outcome: Outcome = "ok"
    error: Problem | None = None
    warnings: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    spilled: SpilledOutput | None = None
    still_running: bool = False
    """The call was answered, but its work could not be stopped and may yet take effect."""
    reused_from: str | None = None
    """The call whose execution this is the result of, if it was not this one."""
    duration_us: int = 0
    """The time from the call to its answer, without the time in which a person was asked."""
    untrusted: bool = False
    """Its words come from outside, from somebody who may want the model to do something: data, not orders."""
    labels: ResultLabels | None = None
    """What its tool declares about its fields, where it declares more than `untrusted`."""
    withheld: tuple[WithheldWords, ...] = ()
    """The words from outside in whose place handles stand in the content, where a policy keeps them from the model."""

    @property
    def is_error(self) -> bool:
        return self.outcome != "ok"

    @property
    def text(self) -> str:
        """The content as the model reads it: text as it is, anything else as JSON."""
        return self.content if isinstance(self.content, str) else msgspec.json.encode(self.content).decode()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ToolResult:
        """Read a result; `is_error` alone, as HearthNet writes it, is the outcome `failed`.

        Raises:
            UsageError: Something is missing or of the wrong type.
        """
        fields = {key: value for key, value in data.items() if key != "is_error"}
        if data.get("is_error") and "outcome" not in data:
            fields["outcome"] = "failed"
        try:
            return msgspec.convert(fields, cls)
        except msgspec.ValidationError as error:
            raise UsageError(f"not a tool result: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        return {**msgspec.to_builtins(self), "content": self.content, "is_error": self.is_error}


class Output(Struct, frozen=True):
    """What a handler returns when it has more to say than a value."""

    output: Any = None
    warnings: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()


def encode_data(data: bytes) -> str:
    """Bytes as they stand in JSON."""
    return base64.b64encode(data).decode()


def _object_or_text(arguments: Any) -> dict[str, Any] | str:
    """What is no object is kept as its JSON text, so that the model is told what it wrote."""
    match arguments:
        case None:
            return {}
        case dict() | str():
            return arguments
        case Mapping():
            return dict(arguments)
    return msgspec.json.encode(arguments).decode()


def _first(data: Any, *keys: str) -> Any:
    for key in keys:
        if isinstance(data, Mapping) and key in data:
            return data[key]
    return None
