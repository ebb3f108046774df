"""The messages of a conversation."""

from __future__ import annotations

from handrail.core.messages import (
    Artefact,
    AssistantMessage,
    Citation,
    Content,
    Conversation,
    DocumentMessage,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    ServiceCall,
    StopReason,
    SupervisorMessage,
    Text,
    Usage,
    UserMessage,
)

__all__ = [
    "Artefact",
    "AssistantMessage",
    "Citation",
    "Content",
    "Conversation",
    "DocumentMessage",
    "InvocationMessage",
    "Media",
    "Message",
    "ResultMessage",
    "ServiceCall",
    "StopReason",
    "SupervisorMessage",
    "Text",
    "Usage",
    "UserMessage",
]
