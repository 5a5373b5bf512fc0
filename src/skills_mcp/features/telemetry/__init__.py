"""OpenTelemetry export of traces, metrics and logs, configured by `OTEL_*` variables.

Nothing of OpenTelemetry is imported unless they are set; on standard input and output
not before the first response.
"""
