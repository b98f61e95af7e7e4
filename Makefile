# Each target creates .venv with plain venv and pip and needs nothing else on the machine.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo play test test-slow test-clients test-wheel test-portable fuzz chaos figures report bench lint format clean

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: .venv/base  ## the main job: learn a task from reward, with the shipped world, and show it
	$(BIN)/cobra solve goal_finding_new_position --steps 600 --final 100 --out runs/demo

play: .venv/play  ## push, look inside, watch and teach, on a page in the browser
	$(BIN)/cobra play

test: .venv/test  ## the tests
	$(BIN)/python -m pytest

test-slow: .venv/test  ## whole pipelines and Ray's processes, for which `make test` has no time
	$(BIN)/python -m pytest -m slow

test-clients: .venv/test .venv/clients  ## the environments with Gymnasium, dm_env, RecordVideo and Stable-Baselines3
	$(BIN)/python -m pytest -m '' tests/test_clients.py tests/spriteworld/test_gym.py

test-wheel: .venv/test  ## build a wheel, install it in a fresh environment and use it in an empty folder; minutes
	$(BIN)/python -m pytest -m wheel -n 0 -s tests/test_wheel.py

fuzz: .venv/test  ## ten times as many malformed inputs as `make test` tries, at random
	COBRA_FUZZ=10 $(BIN)/python -m pytest tests/test_fuzz.py

test-portable: .venv/test  ## all tests as on other machines: orders, BLAS kernels, instruction sets, workers, Pythons
	$(BIN)/python tests/portable.py

chaos: .venv/test  ## kills, crashes, full disks, damaged files, NaN, signals: what was tried and what was lost (nothing)
	$(BIN)/python tests/chaos.py --out results/chaos.json

figures: .venv/base  ## all figures of the paper that the results support, in runs/figures
	$(BIN)/cobra figures

report: .venv/base  ## the story of the agent on one page, runs/report.html
	$(BIN)/cobra report

bench: .venv/test .venv/bench  ## measure the environment beside the real package, vision beside PyTorch, the other phases
	$(BIN)/python -m benchmarks.speed.env
	$(BIN)/python -m benchmarks.speed.vision
	$(BIN)/python -m benchmarks.speed.explore
	$(BIN)/python -m benchmarks.speed.task
	$(BIN)/python -m benchmarks.speed.mpo

lint: .venv/test .venv/lint  ## ruff and pyright
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --no-cache --check .
	$(BIN)/pyright

format: .venv/lint  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove what make made
	rm -rf .venv runs

.venv/base: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --editable .
	@touch $@

.venv/test: .venv/base
	$(PIP) --editable '.[test,ray,play]'
	$(PIP) --no-deps spriteworld==1.0.2
	@touch $@

.venv/play: .venv/base
	$(PIP) --editable '.[play]'
	@touch $@

.venv/bench: .venv/base
	$(PIP) --editable '.[bench]'
	@touch $@

.venv/clients: .venv/base
	$(PIP) --editable '.[clients]'
	$(PIP) --no-deps moviepy==2.2.1
	@touch $@

.venv/lint: .venv/base
	$(PIP) --editable '.[lint]'
	@touch $@
