"""Python types and JSON: their schemas, and JSON values as those types."""
