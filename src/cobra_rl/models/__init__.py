"""One paper concept a file, its loss beside it; no I/O, no loops over data. The axes are those of docs/design.md."""
