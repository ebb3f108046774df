"""Every outcome has one name in each dialect."""

from __future__ import annotations

import pytest

from handrail import Executor, ToolCall, tool
from handrail.core.errors import OUTCOMES
from handrail.core.outcome_codes import CODES


@pytest.mark.requirement("nrv.timeout-code")
def test_every_outcome_but_ok_has_its_codes() -> None:
    assert set(CODES) == set(OUTCOMES) - {"ok"}
    assert CODES["timeout"].nrv == "TIMEOUT"


@pytest.mark.requirement("nrv.timeout-code")
def test_no_two_outcomes_share_an_nrv_code() -> None:
    assert len({codes.nrv for codes in CODES.values()}) == len(CODES)


@pytest.mark.requirement("rlm.handler-error")
async def test_a_raising_handler_reads_as_the_rlm_document_says() -> None:
    @tool
    async def search(query: str) -> str:
        raise ValueError("no index")

    async with Executor([search]) as executor:
        result = await executor.invoke(ToolCall("1", "search", {"query": "x"}))

    assert result.text == "Error executing search: ValueError: no index"
