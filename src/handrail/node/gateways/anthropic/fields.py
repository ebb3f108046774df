"""Every field that Anthropic's client sends to Messages and to its count of tokens, and what becomes of it."""

from __future__ import annotations

from handrail.node.gateways.field_rules import (
    EXTENSION,
    HONOURED,
    FieldRule,
    FieldTable,
    hint_field,
    ignored_field,
    refused_field,
)

_NO_THREADS = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
"""The official client goes on without threads when it reads this."""
_BOOKKEEPING = "bookkeeping of Anthropic's"
_CACHING = "caching is decided by the model's service"

_BOTH: FieldTable = {
    **EXTENSION,
    "cache_control": ignored_field(_CACHING),
    "context_management": hint_field("the conversation is taken as it is sent"),
    "mcp_servers": HONOURED,
    "messages": HONOURED,
    "model": HONOURED,
    "output_config": HONOURED,
    "speed": ignored_field("price and speed of Anthropic's service"),
    "system": HONOURED,
    "thinking": hint_field("the node's configuration decides how much a model thinks", {"type": "disabled"}),
    "tool_choice": HONOURED,
    "tools": HONOURED,
}

HEADERS: FieldTable = {
    "betas": ignored_field("a field of a beta is honoured or refused by its own name"),
    "user_profile_id": ignored_field(_BOOKKEEPING),
    "workspace_id": ignored_field(_BOOKKEEPING),
}
"""What the official client takes as fields and sends as headers."""

MESSAGES: FieldTable = {
    **_BOTH,
    "compaction": refused_field("the node does not summarise conversations; send a message that asks for a summary"),
    "container": refused_field("there are no containers of Anthropic's here; the node's own tools may run code"),
    "diagnostics": ignored_field("it explains Anthropic's cache"),
    "fallback_credit_token": ignored_field(_BOOKKEEPING),
    "fallbacks": refused_field("the node's configuration says which model takes the place of another; leave it out"),
    "inference_geo": refused_field("where a model runs is up to the node's configuration; leave it out"),
    "max_tokens": HONOURED,
    "metadata": ignored_field(_BOOKKEEPING),
    "service_tier": ignored_field("price and speed of Anthropic's service"),
    "stop_sequences": HONOURED,
    "stream": HONOURED,
    "temperature": HONOURED,
    "thread": FieldRule("refused", "no conversation is held here; send all of its messages", api_details=_NO_THREADS),
    "top_k": refused_field("is not passed on to the models of this node; leave it out"),
    "top_p": HONOURED,
}

OUTPUT_CONFIG: FieldTable = {
    "effort": hint_field("the node's configuration decides how much a model thinks"),
    "format": HONOURED,
    "task_budget": refused_field("use max_tokens; the node has limits of its own for a run"),
}

TOOL: FieldTable = {
    "allowed_callers": refused_field("calls come from the model itself here; leave it out", ["direct"]),
    "cache_control": ignored_field(_CACHING),
    "defer_loading": hint_field("the node decides which tools a model is shown at once", False),
    "description": HONOURED,
    "eager_input_streaming": ignored_field("a call is sent when it is complete"),
    "input_examples": hint_field("write them into the description", []),
    "input_schema": HONOURED,
    "name": HONOURED,
    "strict": ignored_field("calls are held to the schema as far as the model's service can"),
    "type": HONOURED,
}
"""Of one of the client's tools."""

COUNT: FieldTable = {**_BOTH, "compaction": ignored_field("the service ignores it here too")}
