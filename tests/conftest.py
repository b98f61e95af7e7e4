"""Shapes and types of every annotated function of ours are checked at run time in all tests."""

from jaxtyping import install_import_hook

install_import_hook("cobra_rl", "beartype.beartype")
