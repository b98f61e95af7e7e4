"""`make test-portable`: all tests as they would run on other machines, and a table of how each went.

A test must not depend on the order of tests, on the number of workers, or on the last bits of a float. Other
processors are imitated by other BLAS kernels (OPENBLAS_CORETYPE), by NumPy without some vector extensions
(NPY_DISABLE_CPU_FEATURES) and by XLA without some (--xla_cpu_max_isa). Settings that do not concern each other share a
run, so that all of them take the time of a few runs; `--each` gives every setting a run of its own.

    python tests/portable.py [--each] [--only NAME ...] [--out results/portable.json] [-- PYTEST ARGUMENTS]
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

ROOT = Path(__file__).parents[1]
NEWEST = ("python3.14", "python3.13", "python3.12")
NO_VECTORS = " ".join(name for name in __cpu_dispatch__ if __cpu_features__.get(name))  # beyond the baseline


class Setting(NamedTuple):
    """What a run has otherwise than `make test`."""

    seed: int = 1  # of pytest-randomly: the order of tests
    workers: int = 2
    blas: str | None = None  # OPENBLAS_CORETYPE
    xla: str | None = None  # --xla_cpu_max_isa
    numpy: str | None = None  # NPY_DISABLE_CPU_FEATURES
    newest: bool = False  # the newest Python of this machine

    def __str__(self) -> str:
        parts = [f"order {self.seed}", f"{self.workers} worker{'s' * (self.workers > 1)}"]
        parts += [f"BLAS {self.blas}"] if self.blas else []
        parts += [f"XLA {self.xla}"] if self.xla else []
        parts += [f"NumPy without {self.numpy}"] if self.numpy else []
        parts += [f"Python {version_of(newest_python())}"] if self.newest else []
        return ", ".join(parts)


def settings(each: bool) -> list[Setting]:
    """The runs; those that need AVX-512 only where the processor has it."""
    avx512 = "avx512f" in Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else False
    if each:
        runs = [Setting(seed=seed) for seed in (1, 2, 3)]
        runs += [Setting(blas=blas) for blas in ("Nehalem", "Haswell", "Zen")]
        runs += [Setting(xla=isa) for isa in ("SSE4_2", "AVX2")] + [Setting(numpy=NO_VECTORS)]
        runs += [Setting(workers=workers) for workers in (1, 4)] + [Setting(newest=True)]
        return runs + ([Setting(blas="SkylakeX"), Setting(xla="AVX512")] if avx512 else [])
    runs = [
        Setting(1, 1, "Nehalem", "SSE4_2", NO_VECTORS),
        Setting(2, 4, "Haswell", "AVX2"),
        Setting(3, 2, "Zen", newest=True),
    ]
    return runs + ([Setting(1, 2, "SkylakeX", "AVX512")] if avx512 else [])


def newest_python() -> str:
    """The newest Python of this machine, at least as new as this one."""
    installed = [str(path) for path in sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3"))]
    found = [sys.executable, *installed, *filter(None, map(shutil.which, NEWEST))]
    return max(found, key=lambda python: [int(part) for part in re.findall(r"\d+", version_of(python))] or [0])


def version_of(python: str) -> str:
    """Such as 3.13.0; nothing if it does not run."""
    run = subprocess.run([python, "--version"], capture_output=True, text=True, check=False)
    return run.stdout.strip().removeprefix("Python ") if run.returncode == 0 else ""


def python_with_tests(folder: Path) -> str:
    """A virtual environment of the newest Python with all that the tests need."""
    python = newest_python()
    if version_of(python) == version_of(sys.executable):
        return sys.executable
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", "--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, "--editable", f"{ROOT}[test,ray]"], check=True)
    subprocess.run([*pip, "--no-deps", "spriteworld==1.0.2"], check=True)
    return str(folder / "bin" / "python")


def run(setting: Setting, folder: Path, more: list[str]) -> dict:
    """One run of the tests; compiled code is not shared with other runs."""
    python = python_with_tests(folder / "venv") if setting.newest else sys.executable
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(folder / "cache")}
    if setting.blas:
        environment["OPENBLAS_CORETYPE"] = setting.blas
    if setting.numpy:
        environment["NPY_DISABLE_CPU_FEATURES"] = setting.numpy
    if setting.xla:
        environment["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_max_isa={setting.xla}".strip()
    workers = ["--numprocesses", str(setting.workers), "--dist", "loadfile"] if setting.workers > 1 else ["-n", "0"]
    command = [
        python,
        "-m",
        "pytest",
        "-o",
        "addopts=-q --strict-markers -m 'not wheel'",
        f"--randomly-seed={setting.seed}",
    ]
    began = time.monotonic()
    done = subprocess.run([*command, *workers, *more], cwd=ROOT, env=environment, text=True, capture_output=True)
    lines = done.stdout.strip().splitlines() or [done.stderr.strip()[-300:]]
    print(done.stdout + done.stderr if done.returncode else lines[-1], flush=True)
    return {"setting": str(setting), "passed": done.returncode == 0, "summary": lines[-1]} | {
        "minutes": (time.monotonic() - began) / 60
    }


def main() -> int:
    """Run all settings; 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", action="store_true", help="a run for every setting")
    parser.add_argument("--only", nargs="*", default=[], help="runs whose settings hold one of these words")
    parser.add_argument("--out", type=Path, help="where to write what came of it as JSON")
    arguments, more = parser.parse_known_args()
    results = []
    for setting in settings(arguments.each):
        if arguments.only and not any(word in str(setting) for word in arguments.only):
            continue
        print(f"--- {setting}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            results.append(run(setting, Path(folder), [word for word in more if word != "--"]))
    for result in results:
        word = "passed" if result["passed"] else "FAILED"
        print(f"{word}  {result['minutes']:5.1f} min  {result['setting']}  ({result['summary']})")
    if arguments.out:
        record = {"command": "make test-portable", "processor": platform.processor() or platform.machine()}
        arguments.out.write_text(json.dumps(record | {"runs": results}, indent=2) + "\n")
    return int(not all(result["passed"] for result in results))


if __name__ == "__main__":
    sys.exit(main())
