"""The APIs that are spoken, as a table."""

from __future__ import annotations

from handrail.node.gateways.agui import read as agui_read, write as agui_write
from handrail.node.gateways.anthropic import read as messages_read, write as messages_write
from handrail.node.gateways.openai import completions, read as chat_read, write as chat_write
from handrail.node.gateways.openai_responses import read as responses_read, write as responses_write
from handrail.node.gateways.openai_responses.ids import response_id_for_request
from handrail.node.gateways.wire import GatewayWire, random_id_maker

OPENAI = GatewayWire(
    name="openai",
    path="/v1/chat/completions",
    read=chat_read.read_chat_request,
    writer=chat_write.ChatWriter,
    failed=chat_write.openai_error_body,
    alive=b": still there\n\n",
    id=random_id_maker("chatcmpl"),
)
ANTHROPIC = GatewayWire(
    name="anthropic",
    path="/v1/messages",
    read=messages_read.read_messages_request,
    writer=messages_write.MessagesWriter,
    failed=messages_write.messages_error_body,
    alive=messages_write.PING,
    id=random_id_maker("msg"),
    overloaded=529,
)
COMPLETIONS = GatewayWire(
    name="completions",
    path=completions.PATH,
    read=completions.read_completions_request,
    writer=completions.CompletionsWriter,
    failed=chat_write.openai_error_body,
    alive=b": still there\n\n",
    id=random_id_maker("cmpl"),
)
RESPONSES = GatewayWire(
    name="responses",
    path="/v1/responses",
    read=responses_read.read_responses_request,
    writer=responses_write.ResponsesWriter,
    failed=responses_write.responses_error_body,
    alive=b": still there\n\n",
    id=response_id_for_request,
)
AGUI = GatewayWire(
    name="agui",
    path="/agui",
    read=agui_read.read_agui_request,
    writer=agui_write.AguiWriter,
    failed=agui_write.agui_error_body,
    alive=b": still there\n\n",
    id=random_id_maker("msg"),
)
WIRES = (OPENAI, ANTHROPIC, COMPLETIONS, RESPONSES, AGUI)
