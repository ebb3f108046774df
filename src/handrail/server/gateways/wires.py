"""The APIs that are spoken, as a table."""

from __future__ import annotations

from handrail.server.gateways.anthropic import read as messages_read
from handrail.server.gateways.anthropic import write as messages_write
from handrail.server.gateways.openai import completions
from handrail.server.gateways.openai import read as chat_read
from handrail.server.gateways.openai import write as chat_write
from handrail.server.gateways.openai_responses import read as responses_read
from handrail.server.gateways.openai_responses import write as responses_write
from handrail.server.gateways.openai_responses.ids import id_for
from handrail.server.gateways.wire import Wire, fresh_id

OPENAI = Wire(
    name="openai",
    path="/v1/chat/completions",
    read=chat_read.read,
    writer=chat_write.ChatWriter,
    failed=chat_write.failed,
    alive=b": still there\n\n",
    id=fresh_id("chatcmpl"),
)
ANTHROPIC = Wire(
    name="anthropic",
    path="/v1/messages",
    read=messages_read.read,
    writer=messages_write.MessagesWriter,
    failed=messages_write.failed,
    alive=messages_write.PING,
    id=fresh_id("msg"),
    overloaded=529,
)
COMPLETIONS = Wire(
    name="completions",
    path=completions.PATH,
    read=completions.read,
    writer=completions.CompletionsWriter,
    failed=chat_write.failed,
    alive=b": still there\n\n",
    id=fresh_id("cmpl"),
)
RESPONSES = Wire(
    name="responses",
    path="/v1/responses",
    read=responses_read.read,
    writer=responses_write.ResponsesWriter,
    failed=responses_write.failed,
    alive=b": still there\n\n",
    id=id_for,
)
WIRES = (OPENAI, ANTHROPIC, COMPLETIONS, RESPONSES)
