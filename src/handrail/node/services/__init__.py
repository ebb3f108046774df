"""What a node can do for others: each module gives capabilities, as descriptors with their handlers."""
