"""Another node, over HTTP: the same bus as in process, by JSON, by server-sent events and by WebSocket."""

from handrail.node.http.bus import HttpBus, Transport

__all__ = ["HttpBus", "Transport"]
