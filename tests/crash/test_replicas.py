"""Replicas, the server of their state and connections fail, and no effect is doubled, lost or made up."""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.crash.replicas import tried
from tests.postgres import find_programs


@pytest.mark.slow
@pytest.mark.skipif(find_programs() is None, reason="there is no PostgreSQL from 15 on")
async def test_no_effect_is_doubled_lost_or_made_up_whatever_fails() -> None:
    faults = int(os.environ.get("HANDRAIL_FAULTS", "5"))

    found = await asyncio.to_thread(tried, 6 * faults, faults, int(os.environ.get("HANDRAIL_FAULTS_SEED", "1")))

    assert found["doubled"] == found["lost"] == found["falsely claimed"] == []
    assert (found["told apart"], found["other outcomes"]) == ({}, [])
    assert found["verified"], found["problems"]
    assert sum(found["faults"].values()) > 0
