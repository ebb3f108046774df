"""Every field that OpenAI's client sends to Chat Completions, Completions and Embeddings, and what becomes of it."""

from __future__ import annotations

from handrail.node.gateways.field_rules import EXTENSION, HONOURED, FieldTable, hint_field, ignored_field, refused_field

_SAMPLING = "is not passed on to the models of this node; leave it out"
_BOOKKEEPING = "bookkeeping of OpenAI's"
_CACHING = "caching is decided by the model's service"

CHAT: FieldTable = {
    **EXTENSION,
    "audio": refused_field("answers are text"),
    "frequency_penalty": refused_field(_SAMPLING, 0),
    "function_call": refused_field("write it as tool_choice"),
    "functions": refused_field("write them as tools, and the choice as tool_choice"),
    "logit_bias": refused_field(_SAMPLING, {}),
    "logprobs": refused_field("log probabilities are not given here; leave it out", False),
    "max_completion_tokens": HONOURED,
    "max_tokens": HONOURED,
    "messages": HONOURED,
    "metadata": ignored_field(_BOOKKEEPING),
    "modalities": refused_field("answers are text", ["text"], []),
    "model": HONOURED,
    "moderation": refused_field("this node runs no moderation; leave it out"),
    "n": refused_field("one answer to a request is given here; leave it out, or ask again", 1),
    "parallel_tool_calls": HONOURED,
    "prediction": ignored_field("it makes the same answer faster"),
    "presence_penalty": refused_field(_SAMPLING, 0),
    "prompt_cache_key": ignored_field(_CACHING),
    "prompt_cache_options": ignored_field(_CACHING),
    "prompt_cache_retention": ignored_field(_CACHING),
    "reasoning_effort": hint_field("the node's configuration decides how much a model thinks"),
    "response_format": HONOURED,
    "safety_identifier": ignored_field(_BOOKKEEPING),
    "seed": HONOURED,
    "service_tier": ignored_field("price and speed of OpenAI's service"),
    "stop": HONOURED,
    "store": hint_field("answers are recorded in the node's journal, and not to be fetched by their ids", False),
    "stream": HONOURED,
    "stream_options": HONOURED,
    "temperature": HONOURED,
    "tool_choice": HONOURED,
    "tools": HONOURED,
    "top_logprobs": refused_field("log probabilities are not given here; leave it out", 0),
    "top_p": HONOURED,
    "user": ignored_field(_BOOKKEEPING),
    "verbosity": hint_field("say it in the messages", "medium"),
    "web_search_options": refused_field("there is no search of OpenAI's here; the node's own tools may have one"),
}

STREAM_OPTIONS: FieldTable = {
    "include_obfuscation": refused_field("nothing is padded here; leave it out", False),
    "include_usage": HONOURED,
}

FUNCTION: FieldTable = {
    "description": HONOURED,
    "name": HONOURED,
    "parameters": HONOURED,
    "strict": ignored_field("calls are held to the schema as far as the model's service can"),
}
"""Of one of the client's tools, inside of its `function`."""

JSON_SCHEMA: FieldTable = {
    "description": hint_field("write it into the messages"),
    "name": ignored_field("nothing here goes by it"),
    "schema": HONOURED,
    "strict": ignored_field("the answer is held to the schema as far as the model's service can"),
}
"""Of `response_format.json_schema`."""

COMPLETIONS: FieldTable = {
    **EXTENSION,
    "best_of": refused_field("one answer to a request is given here; leave it out", 1),
    "echo": HONOURED,
    "frequency_penalty": refused_field(_SAMPLING, 0),
    "logit_bias": refused_field(_SAMPLING, {}),
    "logprobs": refused_field("log probabilities are not given here; leave it out"),
    "max_tokens": HONOURED,
    "model": HONOURED,
    "n": refused_field("one answer to a request is given here; leave it out, or ask again", 1),
    "presence_penalty": refused_field(_SAMPLING, 0),
    "prompt": HONOURED,
    "seed": HONOURED,
    "stop": HONOURED,
    "stream": HONOURED,
    "stream_options": HONOURED,
    "suffix": refused_field("text is only continued here, not filled in; leave it out", ""),
    "temperature": HONOURED,
    "top_p": HONOURED,
    "user": ignored_field(_BOOKKEEPING),
}

EMBEDDINGS: FieldTable = {
    "dimensions": HONOURED,
    "encoding_format": HONOURED,
    "input": HONOURED,
    "model": HONOURED,
    "user": ignored_field(_BOOKKEEPING),
}
