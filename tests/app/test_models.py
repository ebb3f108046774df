"""Which tools are valid for a model: offered to it, and refused to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handrail.app import open_model
from handrail.config.load import load_config
from handrail.core.context import Context
from handrail.core.events import CallSettled
from handrail.core.messages import Conversation, ResultMessage
from handrail.sessions.llm import LLM
from handrail.testing.model import ScriptedModel, call, text
from tests.app.app_folder import AppFolder
from tests.mcp.servers.described_server import tool

READ: dict[str, Any] = {"annotations": {"readOnlyHint": True}}
CONFIG = """
[models.narrow]
provider = "scripted"
model = "script.toml"
tools = ["a:*", "peek"]

[models.wide]
provider = "scripted"
model = "script.toml"

[models.none]
provider = "scripted"
model = "script.toml"
tools = []

[models.falling]
provider = "scripted"
model = "script.toml"
tools = ["a:*", "b:*"]
fallback = ["narrow"]
"""


def llm(folder: Path, name: str, *replies: list[object]) -> tuple[LLM, ScriptedModel]:
    """The model of that name, which says this."""
    (folder / "script.toml").write_text('[[reply]]\ntext = "x"\n')
    model = ScriptedModel(*replies)  # type: ignore[arg-type]
    opened = open_model(load_config(folder / "handrail.toml"), name)
    made = LLM(model)
    made.valid = opened.valid
    return made, model


@pytest.mark.requirement("nrv.model-tools")
@pytest.mark.parametrize(
    ("name", "offered", "outcomes"),
    [
        ("narrow", ["look", "peek", "read_output"], {"look": "ok", "peek": "ok", "poke": "forbidden"}),
        ("wide", ["look", "peek", "poke", "read_output"], {"look": "ok", "peek": "ok", "poke": "ok"}),
        ("none", [], {"look": "forbidden", "peek": "forbidden", "poke": "forbidden"}),
        ("falling", ["look", "peek", "read_output"], {"look": "ok", "peek": "ok", "poke": "forbidden"}),
    ],
)
async def test_a_model_is_offered_the_tools_that_are_valid_for_it_and_a_call_outside_is_refused(
    place: AppFolder, name: str, offered: list[str], outcomes: dict[str, str]
) -> None:
    servers = place.server("a", tool("look", **READ)) + place.server("b", tool("peek", **READ), tool("poke", **READ))
    place.config(CONFIG + servers)
    made, model = llm(place.folder, name, [call(each) for each in outcomes], [text("done")])

    async with place.app(CONFIG + servers) as app:
        ended = await app.runner(made).run(Conversation().say("go"), Context(run="run"))
        record = [event for event in await app.journal.history("run") if isinstance(event, CallSettled)]

    assert sorted(each.name for each in model.requests[0].tools) == offered
    results = [message.result for message in ended.messages if isinstance(message, ResultMessage)]
    assert {result.name.rpartition(":")[2]: result.outcome for result in results} == outcomes
    assert {event.tool.rpartition(":")[2]: event.outcome for event in record} == outcomes
