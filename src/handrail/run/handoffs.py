"""Handoff: a conversation goes on with another agent, in the same run and the same record.

An agent that may hand over is offered a tool `hand_off_to_NAME` for each agent that may take over. Nothing runs for
such a call: it is accepted, and from the next reply on the other agent's model, system prompt, tools and limits are
used. Who speaks follows from the conversation alone, so it is known again after a restart, after `undo` and in a fork.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from handrail.core.errors import LimitReached
from handrail.core.messages import AssistantMessage, Message, ResultMessage, SupervisorMessage
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.core.ports import Model
from handrail.run.history import last_user_position, unanswered_among
from handrail.run.limits import Limits

HAND_OFF = "hand_off_to_"
_SCHEMA = {
    "type": "object",
    "properties": {
        "message": {
            "type": "string",
            "description": "For the other agent, which also reads everything said so far.",
        }
    },
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamMember:
    """One of the agents that a conversation may go on with, as the loop uses it."""

    name: str
    description: str
    model: Model
    defaults: ModelRequest
    system_prompt: str | None
    tools: frozenset[str]
    """The exact names of the tools that it may call."""
    limits: Limits
    handoffs: tuple[str, ...]
    """The names of those it may hand over to."""


class Team:
    """The agents of one conversation."""

    def __init__(self, members: Mapping[str, TeamMember], first: str) -> None:
        self.members = members
        self._first = first
        self._prompts = {
            name: SupervisorMessage(each.system_prompt)
            for name, each in members.items()
            if each.system_prompt is not None
        }
        self._texts = frozenset(each.text for each in self._prompts.values())
        self._by_tool = {f"{HAND_OFF}{name}": each for name, each in members.items()}

    def active(self, messages: Sequence[Message]) -> TeamMember:
        """The agent that speaks next. While a reply has calls without results, it is still the one who made them."""
        end = len(messages)
        if unanswered_among(messages):
            end = next(at for at in range(end - 1, -1, -1) if isinstance(messages[at], AssistantMessage))
        at = self._last_handoff(messages[:end])
        if at is None:
            return self.members[self._first]
        message = messages[at]
        assert isinstance(message, ResultMessage)
        return self._by_tool[message.result.name]

    def offers(self, member: TeamMember) -> tuple[ToolOffer, ...]:
        """The tools by which an agent hands over."""
        return tuple(_offer(self.members[name]) for name in member.handoffs)

    def shown(self, member: TeamMember, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The conversation as an agent reads it: after its own system prompt, and without those of the others."""
        rest = tuple(each for each in messages if not self._is_prompt(each))
        prompt = self._prompts.get(member.name)
        return rest if prompt is None else (prompt, *rest)

    def unsaid_prompt(self, member: TeamMember, messages: Sequence[Message]) -> str | None:
        """The system prompt of an agent that has just taken over, if the conversation does not have it since then."""
        at = self._last_handoff(messages)
        if at is None or member.system_prompt is None:
            return None
        said = (each.text for each in messages[at:] if isinstance(each, SupervisorMessage))
        return None if member.system_prompt in said else member.system_prompt

    def refusal(self, messages: tuple[Message, ...], most: int) -> LimitReached | None:
        """Why nobody may hand over once more before the user has spoken; None if somebody may."""
        since = messages[last_user_position(messages) + 1 :]
        count = sum(self._hands_over(each) for each in since)
        if count < most:
            return None
        return LimitReached(
            f"not handed over: agents have handed this conversation on {count} times since the user last spoke, which "
            "is the limit; answer yourself, with what is known"
        )

    def _is_prompt(self, message: Message) -> bool:
        return isinstance(message, SupervisorMessage) and message.text in self._texts

    def _last_handoff(self, messages: Sequence[Message]) -> int | None:
        return next((at for at in range(len(messages) - 1, -1, -1) if self._hands_over(messages[at])), None)

    def _hands_over(self, message: Message) -> bool:
        return (
            isinstance(message, ResultMessage) and not message.result.is_error and message.result.name in self._by_tool
        )


def _offer(member: TeamMember) -> ToolOffer:
    about = f" {member.description}" if member.description else ""
    words = f"Hand the conversation over to the agent {member.name!r}, who then goes on with it.{about}"
    return ToolOffer(f"{HAND_OFF}{member.name}", words, _SCHEMA)


def accepted(name: str) -> str:
    """The result of a call that handed over."""
    return f"The agent {name.removeprefix(HAND_OFF)!r} goes on from here."
