"""What happened, for the tools of operators: OpenTelemetry and Prometheus."""
