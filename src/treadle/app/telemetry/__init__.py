"""Spans and metrics of threads on their way to a collector of OpenTelemetry."""
