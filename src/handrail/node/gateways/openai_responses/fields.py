"""Every field that OpenAI's client sends to Responses, and what becomes of it."""

from __future__ import annotations

from handrail.node.gateways.field_rules import EXTENSION, HONOURED, FieldTable, hint_field, ignored_field, refused_field

_SAMPLING = "is not passed on to the models of this node; leave it out"
_BOOKKEEPING = "bookkeeping of OpenAI's"
_CACHING = "caching is decided by the model's service"

RESPONSE: FieldTable = {
    **EXTENSION,
    "access_programs": refused_field("there are no such programs here; leave it out"),
    "background": HONOURED,
    "context_management": refused_field("the node trims long conversations by its own settings; leave it out", []),
    "conversation": refused_field("conversations are not kept here; continue a response with previous_response_id"),
    "frequency_penalty": refused_field(_SAMPLING, 0),
    "image": ignored_field("the model's service decides how it reads images"),
    "include": HONOURED,
    "input": HONOURED,
    "instructions": HONOURED,
    "max_output_tokens": HONOURED,
    "max_tool_calls": refused_field("the node's own limits bound the calls of a response; leave it out"),
    "metadata": HONOURED,
    "model": HONOURED,
    "moderation": refused_field("this node runs no moderation; leave it out"),
    "parallel_tool_calls": HONOURED,
    "presence_penalty": refused_field(_SAMPLING, 0),
    "previous_response_id": HONOURED,
    "prompt": refused_field("there are no stored prompts here; send instructions and input"),
    "prompt_cache_key": ignored_field(_CACHING),
    "prompt_cache_options": ignored_field(_CACHING),
    "prompt_cache_retention": ignored_field(_CACHING),
    "reasoning": hint_field("the node's configuration decides how much a model thinks", {}),
    "safety_identifier": ignored_field(_BOOKKEEPING),
    "service_tier": ignored_field("price and speed of OpenAI's service"),
    "store": HONOURED,
    "stream": HONOURED,
    "stream_options": ignored_field("it pads the events of OpenAI's service"),
    "temperature": HONOURED,
    "text": HONOURED,
    "tool_choice": HONOURED,
    "tools": HONOURED,
    "top_logprobs": refused_field("log probabilities are not given here; leave it out", 0),
    "top_p": HONOURED,
    "truncation": hint_field("the node trims long conversations by its own settings", "disabled"),
    "user": ignored_field(_BOOKKEEPING),
}
TEXT: FieldTable = {
    "format": HONOURED,
    "verbosity": hint_field("the node's models decide how much they say", "medium"),
}
