"""What a test module makes when it is imported, every worker makes before its first test, be it needed or not."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLANTED = "import jax.numpy as jnp\n\nONES = jnp.zeros(3) + 1\n"


def test_no_module_makes_an_array_or_compiles_when_it_is_imported(tmp_path):
    """Collect all tests where JAX has no device: an array or a program is an error of the module it is made in.

    Collect one module that makes an array with them, to show that such a module is found.
    """
    planted = tmp_path / "test_planted.py"
    planted.write_text(PLANTED)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-n", "0", "--tb=short"]
    command += ["-c", "pyproject.toml", "tests", str(planted)]
    environment = os.environ | {"JAX_PLATFORMS": "none"}  # there is no platform of that name
    collected = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    _, _, errors = collected.stdout.partition(" ERRORS ")
    found = [Path(path).name for path in re.findall(r"^(.+):\d+: in <module>$", errors, re.MULTILINE)]
    assert found == [planted.name], errors or collected.stdout + collected.stderr
    assert "Interrupted: 1 error during collection" in errors, errors
