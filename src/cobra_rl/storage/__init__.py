"""Files that survive a crash: JSON, safetensors, checkpoints, weights. Knows nothing of models and runs."""
