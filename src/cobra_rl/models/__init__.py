"""One paper concept a file, its loss beside it; no I/O, no loops over data."""
