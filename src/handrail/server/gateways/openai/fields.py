"""Every field that OpenAI's client sends to Chat Completions, Completions and Embeddings, and what becomes of it."""

from __future__ import annotations

from handrail.server.gateways.fields import EXTENSION, HONOURED, FieldTable, hint, ignored, refused

_SAMPLING = "is not passed on to the models of this node; leave it out"
_BOOKKEEPING = "bookkeeping of OpenAI's"
_CACHING = "caching is decided by the model's service"

CHAT: FieldTable = {
    **EXTENSION,
    "audio": refused("answers are text"),
    "frequency_penalty": refused(_SAMPLING, 0),
    "function_call": refused("write it as tool_choice"),
    "functions": refused("write them as tools, and the choice as tool_choice"),
    "logit_bias": refused(_SAMPLING, {}),
    "logprobs": refused("log probabilities are not given here; leave it out", False),
    "max_completion_tokens": HONOURED,
    "max_tokens": HONOURED,
    "messages": HONOURED,
    "metadata": ignored(_BOOKKEEPING),
    "modalities": refused("answers are text", ["text"], []),
    "model": HONOURED,
    "moderation": refused("this node runs no moderation; leave it out"),
    "n": refused("one answer to a request is given here; leave it out, or ask again", 1),
    "parallel_tool_calls": HONOURED,
    "prediction": ignored("it makes the same answer faster"),
    "presence_penalty": refused(_SAMPLING, 0),
    "prompt_cache_key": ignored(_CACHING),
    "prompt_cache_options": ignored(_CACHING),
    "prompt_cache_retention": ignored(_CACHING),
    "reasoning_effort": hint("the node's configuration decides how much a model thinks"),
    "response_format": HONOURED,
    "safety_identifier": ignored(_BOOKKEEPING),
    "seed": HONOURED,
    "service_tier": ignored("price and speed of OpenAI's service"),
    "stop": HONOURED,
    "store": hint("answers are recorded in the node's journal, and not to be fetched by their ids", False),
    "stream": HONOURED,
    "stream_options": HONOURED,
    "temperature": HONOURED,
    "tool_choice": HONOURED,
    "tools": HONOURED,
    "top_logprobs": refused("log probabilities are not given here; leave it out", 0),
    "top_p": HONOURED,
    "user": ignored(_BOOKKEEPING),
    "verbosity": hint("say it in the messages", "medium"),
    "web_search_options": refused("there is no search of OpenAI's here; the node's own tools may have one"),
}

STREAM_OPTIONS: FieldTable = {
    "include_obfuscation": refused("nothing is padded here; leave it out", False),
    "include_usage": HONOURED,
}

FUNCTION: FieldTable = {
    "description": HONOURED,
    "name": HONOURED,
    "parameters": HONOURED,
    "strict": ignored("calls are held to the schema as far as the model's service can"),
}
"""Of one of the client's tools, inside of its `function`."""

JSON_SCHEMA: FieldTable = {
    "description": hint("write it into the messages"),
    "name": ignored("nothing here goes by it"),
    "schema": HONOURED,
    "strict": ignored("the answer is held to the schema as far as the model's service can"),
}
"""Of `response_format.json_schema`."""

COMPLETIONS: FieldTable = {
    **EXTENSION,
    "best_of": refused("one answer to a request is given here; leave it out", 1),
    "echo": HONOURED,
    "frequency_penalty": refused(_SAMPLING, 0),
    "logit_bias": refused(_SAMPLING, {}),
    "logprobs": refused("log probabilities are not given here; leave it out"),
    "max_tokens": HONOURED,
    "model": HONOURED,
    "n": refused("one answer to a request is given here; leave it out, or ask again", 1),
    "presence_penalty": refused(_SAMPLING, 0),
    "prompt": HONOURED,
    "seed": HONOURED,
    "stop": HONOURED,
    "stream": HONOURED,
    "stream_options": HONOURED,
    "suffix": refused("text is only continued here, not filled in; leave it out", ""),
    "temperature": HONOURED,
    "top_p": HONOURED,
    "user": ignored(_BOOKKEEPING),
}

EMBEDDINGS: FieldTable = {
    "dimensions": HONOURED,
    "encoding_format": HONOURED,
    "input": HONOURED,
    "model": HONOURED,
    "user": ignored(_BOOKKEEPING),
}
