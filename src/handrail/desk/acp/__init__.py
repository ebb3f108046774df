"""The desk for editors that speak the Agent Client Protocol: conversations, calls and permissions over stdio."""
