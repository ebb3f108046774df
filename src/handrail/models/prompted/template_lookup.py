"""Which text format a model writes calls in, asked of the server that holds its chat template.

Only where the format was left open and the model's name does not say it. Two kinds of
server tell their template: `llama-server` at `/props`, Ollama at `/api/show`.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace as with_changes

from msgspec.structs import replace

from handrail.core.errors import ModelError
from handrail.models.codec import Codec, WireRequest
from handrail.models.prompted.codec import PromptedCodec
from handrail.models.transport import Endpoint, Transport

_FIELDS = ("chat_template_tool_use", "chat_template", "template")


async def codec_for_template(
    codec: Codec, transport: Transport, endpoint: Endpoint, model: str, service: str
) -> tuple[Codec, str]:
    """The codec with the format of the server's template, and a sentence that says so.

    A server that cannot be asked, or whose template has no known marks, leaves the codec as it is.
    """
    if not isinstance(codec, PromptedCodec):
        return codec, ""
    try:
        template = await _template(transport, endpoint, model, service)
    except ModelError as error:
        return codec, f"the server was asked for its chat template and gave none ({error}); {_as(codec)}"
    format = format_of_template(template)
    if format is None:
        return codec, f"the server's chat template names no text format that is known here; {_as(codec)}"
    chosen = replace(codec, format=format)
    return chosen, f"{_as(chosen)}, which the server's chat template uses"


def _as(codec: PromptedCodec) -> str:
    return f"tools are prompted in the text format {codec.format!r}"


async def _template(transport: Transport, endpoint: Endpoint, model: str, service: str) -> str:
    request = WireRequest(path="/api/show", body={"model": model}, framing="json", exact=False)
    if service == "llamacpp":
        request = WireRequest(path="/props", method="GET", body={}, framing="json", exact=False)
        endpoint = with_changes(endpoint, base_url=endpoint.base_url.rstrip("/").removesuffix("/v1"))
    async with aclosing(transport.send(request, endpoint)) as events:
        async for event in events:
            return next((text for field in _FIELDS if isinstance(text := event.data.get(field), str) and text), "")
    return ""


_ROWS: tuple[tuple[str | None, tuple[str, ...]], ...] = (
    (None, ("]<]minimax[>[",)),  # MiniMax M3 writes arguments as nested elements, which nothing here reads
    ("deepseek_v32", ("｜DSML｜",)),
    ("step3", ("steptml:",)),
    ("deepseek_v3", ("<｜tool▁calls▁begin｜>", "```json")),
    ("deepseek_v31", ("<｜tool▁calls▁begin｜>",)),
    ("mistral", ("[TOOL_CALLS]",)),
    ("kimi_k2", ("<|tool_calls_section_begin|>",)),
    ("lfm2", ("<|tool_call_start|>",)),
    ("lfm2", ("<|tool_list_start|>",)),
    ("gemma4", ("<|tool_call>",)),
    ("functiongemma", ("<start_function_call>",)),
    ("phi4", ("functools[",)),
    ("internlm", ("<|action_start|>",)),
    ("cohere", ("<|START_ACTION|>",)),
    ("cohere", ("\\nAction:\\n```json",)),
    ("apertus", ("<|tools_prefix|>",)),
    ("longcat", ("<longcat_tool_call>",)),
    ("minimax", ("<minimax:tool_call>",)),
    ("hunyuan", ("<tool_sep", "<arg_key")),
    ("glm", ("<arg_key>",)),
    ("nemotron", ("<function=", "<parameter=")),
    ("nemotron", ("<TOOLCALL>",)),
    ("harmony", ("<|channel|>commentary",)),
    ("llama4", ("<|python_start|>",)),
    ("special_token", ("<|tool_call|>",)),
    ("hermes", ("<tool_call>",)),
    ("hermes", ("<tool_calls>",)),
    ("llama", ("<|python_tag|>",)),
    ("llama", ("<function_call>",)),
)


def format_of_template(template: str) -> str | None:
    """The name of the format in which the template writes calls; None if that cannot be told."""
    return next((format for format, marks in _ROWS if all(mark in template for mark in marks)), None)
