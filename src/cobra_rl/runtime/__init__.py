"""Where things run and what survives: checkpoints, shipped weights, logs, signals."""
