"""What sessions keep on disk, or in the shared state of replicas: conversations, long outputs, and embeddings."""
