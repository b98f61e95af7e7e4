"""`python -m cobra_rl` is the `cobra` command."""

from cobra_rl.cli import main

main()
