"""The desk as capabilities of the bus: what the page calls, over the node's WebSocket and nothing else."""
