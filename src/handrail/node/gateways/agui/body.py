"""What a frontend sends to start a run. Fields that are not named here have no effect, as the protocol allows."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct


class DataSource(Struct, rename="camel", tag_field="type", tag="data"):
    value: str
    mime_type: str


class UrlSource(Struct, rename="camel", tag_field="type", tag="url"):
    value: str
    mime_type: str | None = None


class TextPart(Struct, tag_field="type", tag="text"):
    text: str


class ImagePart(Struct, tag_field="type", tag="image"):
    source: DataSource | UrlSource


class AudioPart(Struct, tag_field="type", tag="audio"):
    source: DataSource | UrlSource


class VideoPart(Struct, tag_field="type", tag="video"):
    source: DataSource | UrlSource


class DocumentPart(Struct, tag_field="type", tag="document"):
    source: DataSource | UrlSource


class BinaryPart(Struct, rename="camel", tag_field="type", tag="binary"):
    """The form of a file before version 1 of the protocol."""

    mime_type: str
    url: str | None = None
    data: str | None = None
    filename: str | None = None


Part = TextPart | ImagePart | AudioPart | VideoPart | DocumentPart | BinaryPart


class DeveloperMessage(Struct, tag_field="role", tag="developer"):
    content: str


class SystemMessage(Struct, tag_field="role", tag="system"):
    content: str


class UserSaid(Struct, tag_field="role", tag="user"):
    content: str | list[Part]


class CalledFunction(Struct):
    name: str
    arguments: str


class AguiCall(Struct):
    id: str
    function: CalledFunction


class AssistantSaid(Struct, rename="camel", tag_field="role", tag="assistant"):
    content: str | None = None
    tool_calls: list[AguiCall] | None = None


class ToolSaid(Struct, rename="camel", tag_field="role", tag="tool"):
    tool_call_id: str
    content: str | list[Part]
    error: str | None = None


class ReasoningSaid(Struct, tag_field="role", tag="reasoning"):
    """The model's own thinking, for the person only."""


class ActivityShown(Struct, tag_field="role", tag="activity"):
    """Something that the frontend shows, and no part of the conversation."""


AguiMessage = DeveloperMessage | SystemMessage | UserSaid | AssistantSaid | ToolSaid | ReasoningSaid | ActivityShown


class AguiTool(Struct):
    """A tool that the frontend runs."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None


class ContextEntry(Struct):
    description: str
    value: str


class ResumeEntry(Struct, rename="camel"):
    """What became of an interrupt of an earlier run."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class RunAgentInput(Struct, rename="camel"):
    thread_id: str
    run_id: str
    messages: list[AguiMessage]
    tools: list[AguiTool] | None = None
    context: list[ContextEntry] | None = None
    state: Any = None
    forwarded_props: dict[str, Any] | None = None
    """`model` is the name of a model, and `handrail` has the fields that every gateway takes."""
    resume: list[ResumeEntry] | None = None
