"""What a person looks at beside conversations: tools, the record, the network, settings. Each view is bounded."""
