"""Runs, turns and calls as OpenTelemetry spans, by the conventions for generative AI.

invoke_agent MODEL       a run
  chat MODEL             one reply of the model
  execute_tool TOOL      one call

What a call is part of comes with it (`Context.trace`), and what it makes others do says so in turn: a
trace goes on across the bus and MCP. Arguments and results are not told unless `content` says so; then
what looks like a secret is masked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.errors import MissingExtra
from handrail.core.messages import AssistantMessage
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Model, provider_of
from handrail.core.redact import redact
from handrail.core.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.trace import Span as OtelApiSpan, TracerProvider

__all__ = ["OtelTracer"]

_LONGEST = 8_192
"""Characters of an argument text or a result."""
_REQUEST = {
    "max_tokens": "gen_ai.request.max_tokens",
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "seed": "gen_ai.request.seed",
    "stop": "gen_ai.request.stop_sequences",
}
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "gemini": "gcp.gemini",
    "gemini-interactions": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "vertex-anthropic": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
    "kimi": "moonshot_ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
    "openai_chat": "openai",
    "openai_responses": "openai",
    None: "handrail",
}
"""The conventions' names of services that they name differently; for any other service, ours is used."""
_USAGE = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_written_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}


class OtelSpan:
    def __init__(self, span: OtelApiSpan, *, content: bool) -> None:
        self._span = span
        self._content = content

    @property
    def parent(self) -> str | None:
        found = self._span.get_span_context()
        if not found.is_valid:
            return None
        return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}"

    def settled(self, result: ToolResult, tool: str) -> None:
        self._span.set_attribute("gen_ai.tool.name", tool)
        self._span.set_attribute("handrail.outcome", result.outcome)
        if result.is_error:
            from opentelemetry.trace import StatusCode

            code = result.outcome if result.error is None else result.error.code
            self._span.set_attribute("error.type", code)
            self._span.set_status(StatusCode.ERROR)
        if self._content:
            self._span.set_attribute("gen_ai.tool.call.result", _safe_text(result.content))

    def replied(self, message: AssistantMessage) -> None:
        self._span.set_attribute("gen_ai.response.finish_reasons", (message.stop,))
        if message.model:
            self._span.set_attribute("gen_ai.response.model", message.model)
        for field, name in _USAGE.items():
            if value := getattr(message.usage, field, 0):
                self._span.set_attribute(name, value)

    def refused(self, code: str) -> None:
        from opentelemetry.trace import StatusCode

        self._span.set_attribute("error.type", code)
        self._span.set_status(StatusCode.ERROR)


def tracer_of_program() -> OtelTracer | None:
    """For a program that has set a provider up; of any other None, and nothing is imported for it."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    provider = trace.get_tracer_provider()
    idle = isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider)
    return None if idle else OtelTracer(provider)


class OtelTracer:
    """Sends spans to a provider of OpenTelemetry, by default the one that the program has set."""

    def __init__(self, provider: TracerProvider | None = None, *, content: bool = False) -> None:
        try:
            from opentelemetry import trace
        except ImportError as error:
            raise MissingExtra("telling OpenTelemetry", "otel") from error
        self._tracer = trace.get_tracer("handrail", VERSION, provider)
        self._content = content

    @contextmanager
    def run(self, run: str, model: Model, context: Context) -> Iterator[OtelSpan]:
        facts = _request_attributes("invoke_agent", run, model) | _agent(context)
        with self._span(f"invoke_agent {model.name}", facts, context.trace) as span:
            yield span

    @contextmanager
    def turn(self, run: str, model: Model, request: ModelRequest, context: Context) -> Iterator[OtelSpan]:
        facts = _request_attributes("chat", run, model) | _agent(context)
        facts |= {name: getattr(request, field) for field, name in _REQUEST.items()}
        facts["gen_ai.output.type"] = None if request.response_schema is None else "json"
        with self._span(f"chat {model.name}", facts, context.trace, client=True) as span:
            yield span

    @contextmanager
    def call(self, call: ToolCall, context: Context) -> Iterator[OtelSpan]:
        facts: dict[str, Any] = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function",
        }
        if self._content:
            facts["gen_ai.tool.call.arguments"] = _safe_text(call.arguments)
        with self._span(f"execute_tool {call.name}", facts, context.trace) as span:
            yield span

    @contextmanager
    def _span(
        self, name: str, facts: dict[str, Any], parent: str | None, *, client: bool = False
    ) -> Iterator[OtelSpan]:
        from opentelemetry.trace import SpanKind, StatusCode

        known = {key: value for key, value in facts.items() if value not in (None, ())}
        kind = SpanKind.CLIENT if client else SpanKind.INTERNAL
        within = _inside(parent)
        with self._tracer.start_as_current_span(
            name, within, kind, known, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield OtelSpan(span, content=self._content)
            except BaseException as error:  # only its kind: its words may hold what must not be told
                span.set_attribute("error.type", type(error).__qualname__)
                span.set_status(StatusCode.ERROR)
                raise


def _request_attributes(operation: str, run: str, model: Model) -> dict[str, Any]:
    provider = provider_of(model)
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.conversation.id": run,
        "gen_ai.request.model": model.name,
    }


def _agent(context: Context) -> dict[str, Any]:
    """The agent that speaks, if there is one."""
    return {"gen_ai.agent.name": context.agents[-1]} if context.agents else {}


def _inside(parent: str | None) -> Any:
    """The context of a parent that was told; None is whatever is current."""
    if parent is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": parent})


def _safe_text(value: Any) -> str:
    safe = redact(value)
    text = safe if isinstance(safe, str) else msgspec.json.encode(safe).decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
