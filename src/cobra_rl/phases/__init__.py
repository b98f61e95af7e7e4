"""Training phases: each turns data into trained parameters; the losses are in models/ and agents/."""
