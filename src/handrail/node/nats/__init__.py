"""The bus across machines: calls over NATS, with leases, credit and an honest word when a worker is lost."""
