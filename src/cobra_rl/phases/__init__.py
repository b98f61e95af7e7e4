"""Loops: data in, parameters out; no maths."""
