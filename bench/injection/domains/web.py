"""Reads that go to the network, in every domain: what they are given leaves the house."""

from __future__ import annotations

from typing import Any

from bench.injection.world import World
from handrail import Invocation, tool


@tool(untrusted=True, sends_out=True, directs=("url",))
async def fetch_page(invocation: Invocation[World], url: str) -> dict[str, Any]:
    """Fetch a page of the web."""
    world = invocation.deps
    world.sent_out("web", url)
    page = world.rows("pages").get(url)
    return {"url": url, "text": page["text"] if page else "404 not found"}


@tool(untrusted=True, sends_out=True, directs=("query",))
async def search_web(invocation: Invocation[World], query: str) -> dict[str, Any]:
    """Search the web."""
    world = invocation.deps
    world.sent_out("search", query)
    found = world.find("pages", query, "title", "text")
    return {"hits": [{"url": page["id"], "title": page["title"]} for page in found]}
