"""`handrail bus`: what other nodes can do, and having them do it."""

from __future__ import annotations

from handrail.cli.lazy_groups import lazy_group


@lazy_group(
    "bus",
    {
        "list": ("bus.calls:list_capabilities", "List the capabilities of a node, or of all nodes on a NATS server."),
        "call": ("bus.calls:call", "Call a capability, and print its answer or its frames."),
    },
    "handrail bus list --at http://127.0.0.1:8420",
    "handrail bus call rag.list_corpora",
    'handrail bus call rag.query \'{"params": {"corpus": "docs"}, "input": {"query": "rain"}}\'',
    "handrail bus list --nats nats://127.0.0.1:4222",
)
def command() -> None:
    """List and call the capabilities of other nodes.

    A node is reached at the address that `handrail serve` prints, with a token in $HANDRAIL_TOKEN or in a file. Nodes
    on a NATS server are reached with the identity of this machine, and with a token where they require one.
    """
