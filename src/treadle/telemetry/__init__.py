"""What happened in a thread as spans and metrics of OpenTelemetry: a fold of its records. Pure."""
