"""One concept of the paper per file, with its loss; no I/O and no training loops. docs/design.md defines the axes."""
