"""Agents: what to do, given what is seen, imagined and wanted.

Axes throughout: B batch, E environments, P proposals, K slots, M latents, A action dimension, H W image.
"""
