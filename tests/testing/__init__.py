"""The doubles that users have for their tests."""
