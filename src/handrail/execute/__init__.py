"""One call, settled: resolve, parse, validate, authorise, confirm, dedupe, run, check output, bound, record."""
