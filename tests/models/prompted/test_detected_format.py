"""Which text format a model's calls are prompted in: by its name, or by the chat template that its server tells."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from handrail import create_llm
from handrail.core.events import CallRequested, ModelEvent, Notice
from handrail.core.messages import Conversation
from handrail.core.model_request import ModelRequest
from handrail.models.profiles import profile_for
from handrail.models.prompted.formats import FORMATS, format_named
from handrail.models.prompted.template_lookup import format_of_template
from tests.models.prompted.reply_corpus import OFFERED, replies
from tests.models.raw_reply_server import RawReplyServer, Reply, serving, whole

ASKED = ModelRequest(messages=Conversation().say("Hello").messages, tools=OFFERED)
CALL = '[TOOL_CALLS]get_weather[ARGS]{"city": "Tokyo"}'


def document(value: Any) -> Reply:
    return whole(msgspec.json.encode(value))


def chat(text: str) -> Reply:
    message = {"role": "assistant", "content": text}
    return document({"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


def ollama(text: str) -> Reply:
    return document(
        {"model": "m", "message": {"role": "assistant", "content": text}, "done": True, "done_reason": "stop"}
    )


async def heard(
    server: RawReplyServer, name: str, tools: str = "prompted", request: ModelRequest = ASKED
) -> list[ModelEvent]:
    base = server.url if name.startswith("ollama") else f"{server.url}/v1"
    llm = create_llm(name, base_url=base, tools=tools, stream=False)
    try:
        return [event async for event in llm.model.stream(request)]
    finally:
        await llm.model.aclose()  # type: ignore[attr-defined]  # a port has no such method; this model has


@pytest.mark.parametrize(
    ("model", "format"),
    [
        ("mistralai/Mistral-Small-3.2-24B-Instruct-2506", "mistral"),
        ("mistral-nemo", "mistral"),
        ("deepseek-ai/DeepSeek-V3-0324", "deepseek_v3"),
        ("deepseek-ai/DeepSeek-V3.1-Terminus", "deepseek_v31"),
        ("deepseek-ai/DeepSeek-V3.2-Exp", "deepseek_v31"),
        ("deepseek-ai/DeepSeek-V3.2", "deepseek_v32"),
        ("moonshotai/Kimi-K2-Instruct-0905", "kimi_k2"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama4"),
        ("llama4:scout", "llama4"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama"),
        ("LiquidAI/LFM2-1.2B", "lfm2"),
        ("google/gemma-3-27b-it", "pythonic"),
        ("google/gemma-4-31B-it", "gemma4"),
        ("google/functiongemma-270m-it", "functiongemma"),
        ("microsoft/Phi-4-mini-instruct", "phi4"),
        ("internlm/internlm3-8b-instruct", "internlm"),
        ("CohereForAI/c4ai-command-r7b-12-2024", "cohere"),
        ("stepfun-ai/step3", "step3"),
        ("stepfun-ai/Step-3.5-Flash", "nemotron"),
        ("meituan-longcat/LongCat-Flash-Chat", "longcat"),
        ("swiss-ai/Apertus-8B-Instruct-2509", "apertus"),
        ("tencent/Hy3-preview", "hunyuan"),
        ("zai-org/GLM-4.7", "glm"),
        ("THUDM/glm-4-9b-chat", "json"),
        ("MiniMaxAI/MiniMax-M2", "minimax"),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "nemotron"),
        ("Qwen/Qwen3-8B", "hermes"),
    ],
)
def test_a_model_is_known_by_its_name_wherever_it_is_served(model: str, format: str) -> None:
    assert profile_for("vllm", model).prompted_format == format
    assert format in FORMATS


@pytest.mark.parametrize(
    ("excerpt", "format"),
    [
        ('{{- "[TOOL_CALLS]" + name + "[ARGS]" }}', "mistral"),
        ("{{- '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool['type'] + '\\n```json\\n' }}", "deepseek_v3"),
        ("{{- '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool['function']['name'] }}", "deepseek_v31"),
        ("{%- set dsml_token = '｜DSML｜' -%}", "deepseek_v32"),
        ("<|tool_calls_section_begin|>{%- for tool_call in message['tool_calls'] -%}", "kimi_k2"),
        ('"List of tools: <|tool_list_start|>["', "lfm2"),
        ("{{- '<|tool_call>call:' + function['name'] + '{' -}}", "gemma4"),
        ("* all function calls should be formatted as functools[{...}]", "phi4"),
        ("{{- '<|action_start|><|plugin|>\\n' }}", "internlm"),
        ("<|START_ACTION|>[", "cohere"),
        ("{{- '\\nAction:\\n```json\\n[\\n' }}", "cohere"),
        ("{%- set tool_calls_token = '<|tools_prefix|>' -%}", "apertus"),
        ("{%- set toolsep_token = '<tool_sep{}>' %}{%- set argkey_begin_token = '<arg_key{}>' %}", "hunyuan"),
        ("{{ '<tool_call>' + tc.name }}<arg_key>{{ k }}</arg_key>", "glm"),
        ("{%- set toolcall_begin_token = '<minimax:tool_call>' -%}", "minimax"),
        ("<tool_call>\\n<function=example>\\n<parameter=a>", "nemotron"),
        ('<tool_call>\\n{\\"name\\": <function-name>}', "hermes"),
        ("{%- set ns_token = ']<]minimax[>[' -%}{{ '<tool_call>' }}", None),
        ("{{ message['content'] }}", None),
    ],
)
def test_a_format_is_known_by_the_marks_in_a_chat_template(excerpt: str, format: str | None) -> None:
    assert format_of_template(f"{{%- for message in messages %}}{excerpt}{{%- endfor %}}") == format


async def test_llama_server_is_asked_once_for_its_template_where_the_name_says_nothing() -> None:
    props = document({"chat_template": "{{ '[TOOL_CALLS]' }}", "total_slots": 1})
    async with serving(props, chat(CALL), chat("Done.")) as server:
        llm = create_llm("llamacpp", base_url=f"{server.url}/v1", tools="prompted", stream=False)
        found = [event async for event in llm.model.stream(ASKED)]
        again = [event async for event in llm.model.stream(ASKED)]
        await llm.model.aclose()  # type: ignore[attr-defined]  # a port has no such method; this model has

    assert [asked.path for asked in server.asked] == ["/props", "/v1/chat/completions", "/v1/chat/completions"]
    assert (server.asked[0].method, server.asked[0].body) == ("GET", b"")
    assert "[TOOL_CALLS]TOOL[ARGS]" in server.asked[1].json["messages"][0]["content"]
    assert [event.call.name for event in found if isinstance(event, CallRequested)] == ["get_weather"]
    assert ["'mistral'" in event.text for event in found if isinstance(event, Notice)] == [True]
    assert not [event for event in again if isinstance(event, Notice)]


async def test_ollama_is_asked_for_the_template_of_the_model() -> None:
    show = document({"template": "{{ range .ToolCalls }}[TOOL_CALLS]{{ end }}", "capabilities": ["completion"]})
    async with serving(show, ollama(CALL)) as server:
        found = await heard(server, "ollama:my-own-model")

    assert [asked.path for asked in server.asked] == ["/api/show", "/api/chat"]
    assert server.asked[0].json == {"model": "my-own-model"}
    assert [event.call.name for event in found if isinstance(event, CallRequested)] == ["get_weather"]


async def test_a_known_name_is_not_asked_about_unless_the_format_is_auto() -> None:
    async with serving(ollama("[TOOL_CALLS]get_current_date[ARGS]{}")) as server:
        found = await heard(server, "ollama:mistral-nemo")
    assert [asked.path for asked in server.asked] == ["/api/chat"]
    assert [event for event in found if isinstance(event, CallRequested)]

    async with serving(document({"template": "<tool_call>"}), ollama("Hello.")) as server:
        found = await heard(server, "ollama:mistral-nemo", "prompted:auto")
    assert [asked.path for asked in server.asked] == ["/api/show", "/api/chat"]
    assert ["'hermes'" in event.text for event in found if isinstance(event, Notice)] == [True]


@pytest.mark.parametrize(
    "answer", [whole(b"no such thing", status=404), document({}), document({"template": "{{ .Prompt }}"})]
)
async def test_a_server_that_does_not_tell_leaves_the_format_as_it_was_and_a_notice_says_so(answer: Reply) -> None:
    async with serving(answer, ollama("Hello.")) as server:
        found = await heard(server, "ollama:my-own-model")

    assert ["'json'" in event.text for event in found if isinstance(event, Notice)] == [True]
    assert '{"name": "TOOL"' in server.asked[1].json["messages"][0]["content"]


async def test_nothing_is_asked_for_a_request_without_tools() -> None:
    async with serving(ollama("Hello.")) as server:
        await heard(server, "ollama:my-own-model", request=ModelRequest(messages=ASKED.messages))

    assert [asked.path for asked in server.asked] == ["/api/chat"]


@pytest.mark.parametrize(("model", "kept"), [("mistral-nemo", True), ("Qwen/Qwen3-8B", False)])
async def test_vllm_is_told_to_keep_the_tokens_that_a_format_is_made_of(model: str, kept: bool) -> None:
    async with serving(chat("Hello.")) as server:
        await heard(server, f"vllm:{model}")

    assert (server.asked[0].json.get("skip_special_tokens") is False) == kept


def test_every_format_of_the_corpus_can_be_asked_for_by_name() -> None:
    assert {reply.format for reply in replies()} <= FORMATS.keys()
    for name in ("hy_v3", "glm47", "minimax_m2", "llama4_pythonic", "phi4_mini_json", "deepseek", "kimi"):
        assert format_named(name).name in {reply.format for reply in replies()}
