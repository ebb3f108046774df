"""The APIs that are spoken, as a table."""

from __future__ import annotations

from handrail.server.gateways.anthropic import read as messages_read
from handrail.server.gateways.anthropic import write as messages_write
from handrail.server.gateways.openai import completions
from handrail.server.gateways.openai import read as chat_read
from handrail.server.gateways.openai import write as chat_write
from handrail.server.gateways.wire import Wire

OPENAI = Wire(
    name="openai",
    path="/v1/chat/completions",
    read=chat_read.read,
    writer=chat_write.ChatWriter,
    failed=chat_write.failed,
    broken=chat_write.broken,
    alive=b": still there\n\n",
    id="chatcmpl",
)
ANTHROPIC = Wire(
    name="anthropic",
    path="/v1/messages",
    read=messages_read.read,
    writer=messages_write.MessagesWriter,
    failed=messages_write.failed,
    broken=messages_write.broken,
    alive=messages_write.PING,
    id="msg",
    overloaded=529,
)
COMPLETIONS = Wire(
    name="completions",
    path=completions.PATH,
    read=completions.read,
    writer=completions.CompletionsWriter,
    failed=chat_write.failed,
    broken=chat_write.broken,
    alive=b": still there\n\n",
    id="cmpl",
)
WIRES = (OPENAI, ANTHROPIC, COMPLETIONS)
