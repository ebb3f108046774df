"""Events that are held back until the model has asked for the call."""

from __future__ import annotations

import asyncio

from handrail.core.events import Event, Notice
from handrail.run.reply import HeldEvents


async def test_events_that_come_while_the_held_ones_are_emitted_come_after_them() -> None:
    heard: list[str] = []
    reading, go_on = asyncio.Event(), asyncio.Event()

    async def slow_reader(event: Event) -> None:
        assert isinstance(event, Notice)
        reading.set()
        await go_on.wait()
        heard.append(event.text)

    held = HeldEvents(slow_reader)
    await held(Notice(text="first"))
    await held(Notice(text="second"))
    assert not reading.is_set()

    release = asyncio.create_task(held.release())
    await reading.wait()
    await held(Notice(text="third"))
    go_on.set()
    await release
    await held(Notice(text="fourth"))

    assert heard == ["first", "second", "third", "fourth"]
