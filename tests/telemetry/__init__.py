"""What operators see: spans and figures."""
