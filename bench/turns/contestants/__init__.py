"""The contestants that run in handrail's own environment. Each has an `opened`; see `bench.turns.worker`."""
