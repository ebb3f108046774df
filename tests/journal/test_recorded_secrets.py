"""What a tool is given, gives back and fails with: on record, in spans and in logs, and no secret of any of it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from handrail.core.calls import ToolCall
from handrail.core.errors import ToolError
from handrail.execute.executor import Executor
from handrail.execute.policy import Policy
from handrail.journal.journal import SqliteJournal
from handrail.sessions.create import create_llm
from handrail.telemetry import OtelTracer
from handrail.tools.tool import tool
from tests.core.secret_samples import BESIDE, ORDINARY, SHAPES

SECRETS = {**{kind: (secret, secret) for kind, secret in SHAPES.items()}, **BESIDE}


@tool
def echo(text: str) -> str:
    """Say it again."""
    return f"you said: {text}"


@tool(side_effects=True)
def lose(text: str) -> str:
    """Fail, and talk of it."""
    raise ToolError("NOT_FOUND", f"no {text}")


async def recorded(folder: Path, texts: list[str], tracer: OtelTracer | None = None) -> str:
    """Both tools called with each text, and every byte that the journal wrote."""
    async with await SqliteJournal.open(folder / "journal.db") as journal:
        policy = Policy(confirm_side_effects=False)
        async with Executor([echo, lose], journal=journal, policy=policy, tracer=tracer) as executor:
            for number, text in enumerate(texts):
                for name in ("echo", "lose"):
                    await executor.invoke(ToolCall(f"{name}_{number}", name, {"text": text}))
    return written(folder)


def written(folder: Path) -> str:
    return "".join(path.read_bytes().decode("utf-8", "replace") for path in folder.iterdir() if path.is_file())


async def test_no_secret_of_a_known_form_reaches_the_journal_in_arguments_results_or_errors(tmp_path: Path) -> None:
    kept = await recorded(tmp_path, [text for text, _ in SECRETS.values()])

    assert "you said" in kept
    assert [kind for kind, (_, secret) in SECRETS.items() if secret in kept] == []


async def test_ordinary_text_is_on_record_word_for_word(tmp_path: Path) -> None:
    texts = [text for text in ORDINARY if text.isascii() and not set(text) & set('"\\\n')]

    kept = await recorded(tmp_path, texts)

    assert [text for text in texts if f"you said: {text}" not in kept] == []


async def test_a_configured_key_is_in_no_record_span_or_log_line_whatever_it_looks_like(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = "plainwordsthatnobodyknows"
    create_llm("mistral", model="m", key=key)
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))

    kept = await recorded(tmp_path, [f"the key {key}"], OtelTracer(provider, content=True))
    logging.getLogger("handrail.somewhere.deep").warning("the service refused %s", key)

    told: list[Any] = [span.to_json() for span in spans.get_finished_spans()]
    assert "the key [redacted]" in kept
    assert told
    for text in (kept, caplog.text, *told):
        assert key not in text


def test_the_traceback_of_a_log_line_is_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    secret = SHAPES["Stripe"]
    try:
        raise ValueError(f"the service said: {secret}")
    except ValueError:
        logging.getLogger("handrail.anywhere").exception("it failed with %s", secret)

    assert secret not in caplog.text
    assert caplog.text.count("[redacted]") == 2
    assert "Traceback" in caplog.text
