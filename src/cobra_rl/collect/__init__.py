"""Actors, here or on Ray, and the replay that keeps what they send."""
