"""What runs need apart from models: checkpoints, weights, logs, signals, replay, actors."""
