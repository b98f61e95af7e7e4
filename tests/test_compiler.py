"""A canary: XLA must compute on this CPU what NumPy computes. jaxlib 0.9.1 to 0.10.2 do not, without `xla.py`.

The wrong rows are of fusions that XLA hands to YNNPACK (jax-ml/jax 39103): of a matrix times a vector, then a reduction
since 0.9.1, and with a square between them since 0.10.2. Rows 32,768 and later are wrong, if there are not many more.
"""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np

from cobra_rl.xla import FLAG

PATTERNS = {
    "sum(M row)": lambda product: product.sum(-1),
    "sum((M row)**2)": lambda product: (product**2).sum(-1),
    "max(M row)": lambda product: product.max(-1),
}


def wrong_patterns() -> list[str]:
    """Return the patterns that compiled code computes otherwise than NumPy."""
    wrong = []
    for rows in (32_769, 40_000):
        given = np.stack([np.arange(rows), np.zeros(rows), np.ones(rows)], axis=1).astype(np.float32)
        for name, reduce in PATTERNS.items():
            compiled = jax.jit(jax.vmap(lambda row, reduce=reduce: reduce(jnp.eye(3) @ row)))
            if not np.allclose(compiled(given), reduce(given), rtol=1e-5):
                wrong.append(f"{name} of {rows} rows")
    return wrong


def test_compiled_code_computes_what_numpy_computes():
    wrong = wrong_patterns()
    assert not wrong, (
        f"jaxlib {jax.lib.__version__} computes {', '.join(wrong)} wrongly on this CPU: install the versions of "
        "constraints.txt (`pip install -c constraints.txt -e .`), or set "
        "XLA_FLAGS=--xla_cpu_experimental_ynn_fusion_type= (an empty value)."
    )


def test_whoever_imports_the_package_first_gets_the_flag(tmp_path):
    code = "import cobra_rl, os; print(os.environ['XLA_FLAGS'])"
    flags = subprocess.run(
        [sys.executable, "-c", code], env=without_flags(), capture_output=True, text=True, check=True
    )
    assert FLAG in flags.stdout
    kept = without_flags() | {"XLA_FLAGS": f"{FLAG} --xla_cpu_max_isa=AVX2"}
    flags = subprocess.run([sys.executable, "-c", code], env=kept, capture_output=True, text=True, check=True)
    assert flags.stdout.count(FLAG) == 1


def test_whoever_used_jax_before_is_warned():
    code = "import jax; jax.numpy.ones(3).sum(); import cobra_rl"
    said = subprocess.run([sys.executable, "-c", code], env=without_flags(), capture_output=True, text=True, check=True)
    assert "import cobra_rl first, or set XLA_FLAGS" in said.stderr
    assert said.stderr.count("RuntimeWarning") == 1


def without_flags() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
