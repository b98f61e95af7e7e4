"""One concept of the paper per file, with its loss; no I/O, no loops over data. Axes: docs/architecture.md."""
