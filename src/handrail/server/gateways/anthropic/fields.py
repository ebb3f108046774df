"""Every field that Anthropic's client sends to Messages and to its count of tokens, and what becomes of it."""

from __future__ import annotations

from handrail.server.gateways.fields import EXTENSION, HONOURED, FieldRule, FieldTable, hint, ignored, refused

_NO_THREADS = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
"""The official client goes on without threads when it reads this."""
_BOOKKEEPING = "bookkeeping of Anthropic's"
_CACHING = "caching is decided by the model's service"

_BOTH: FieldTable = {
    **EXTENSION,
    "cache_control": ignored(_CACHING),
    "context_management": hint("the conversation is taken as it is sent"),
    "mcp_servers": HONOURED,
    "messages": HONOURED,
    "model": HONOURED,
    "output_config": HONOURED,
    "speed": ignored("price and speed of Anthropic's service"),
    "system": HONOURED,
    "thinking": hint("the node's configuration decides how much a model thinks", {"type": "disabled"}),
    "tool_choice": HONOURED,
    "tools": HONOURED,
}

HEADERS: FieldTable = {
    "betas": ignored("a field of a beta is honoured or refused by its own name"),
    "user_profile_id": ignored(_BOOKKEEPING),
    "workspace_id": ignored(_BOOKKEEPING),
}
"""What the official client takes as fields and sends as headers."""

MESSAGES: FieldTable = {
    **_BOTH,
    "compaction": refused("the node does not summarise conversations; send a message that asks for a summary"),
    "container": refused("there are no containers of Anthropic's here; the node's own tools may run code"),
    "diagnostics": ignored("it explains Anthropic's cache"),
    "fallback_credit_token": ignored(_BOOKKEEPING),
    "fallbacks": refused("the node's configuration says which model takes the place of another; leave it out"),
    "inference_geo": refused("where a model runs is up to the node's configuration; leave it out"),
    "max_tokens": HONOURED,
    "metadata": ignored(_BOOKKEEPING),
    "service_tier": ignored("price and speed of Anthropic's service"),
    "stop_sequences": HONOURED,
    "stream": HONOURED,
    "temperature": HONOURED,
    "thread": FieldRule("refused", "no conversation is held here; send all of its messages", api_details=_NO_THREADS),
    "top_k": refused("is not passed on to the models of this node; leave it out"),
    "top_p": HONOURED,
}

OUTPUT_CONFIG: FieldTable = {
    "effort": hint("the node's configuration decides how much a model thinks"),
    "format": HONOURED,
    "task_budget": refused("use max_tokens; the node has limits of its own for a run"),
}

TOOL: FieldTable = {
    "allowed_callers": refused("calls come from the model itself here; leave it out", ["direct"]),
    "cache_control": ignored(_CACHING),
    "defer_loading": hint("the node decides which tools a model is shown at once", False),
    "description": HONOURED,
    "eager_input_streaming": ignored("a call is sent when it is complete"),
    "input_examples": hint("write them into the description", []),
    "input_schema": HONOURED,
    "name": HONOURED,
    "strict": ignored("calls are held to the schema as far as the model's service can"),
    "type": HONOURED,
}
"""Of one of the client's tools."""

COUNT: FieldTable = {**_BOTH, "compaction": ignored("the service ignores it here too")}
