"""The page in a real browser: Debian's chromium, driven by Playwright. Skipped where there is none.

One server with the shipped world serves all tests; any error on the console fails the test that caused it.
"""

import os
import re
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("chromium is not installed (Debian: apt install chromium)", allow_module_level=True)
pytest.importorskip("starlette")
playwright = pytest.importorskip("playwright.sync_api")

SLOW = 300_000  # ms; compiling on a busy machine takes its time


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def address(runs):
    """Start `cobra play` as a person does, and return the address that it prints."""
    env = {name: value for name, value in os.environ.items() if name != "JAX_DISABLE_MOST_OPTIMIZATIONS"}
    command = [sys.executable, "-m", "cobra_rl", "play", "--no-browser", "--port", "0", "--runs", str(runs)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        yield re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line)[0]
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def page(browser, address):
    """A fresh page, past the guide; nothing may have been said on its console."""
    page, said = browser.new_page(viewport={"width": 1280, "height": 800}), []
    page.set_default_timeout(SLOW)
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address)
    page.wait_for_selector("body[data-ready=yes]")
    page.click("#guide-skip")
    yield page
    errors = page.evaluate("cobra.errors")
    page.close()
    assert said == []
    assert errors == []


def pixels(page, canvas):
    """The pixels of a canvas, as numbers."""
    script = "id => Array.from(document.getElementById(id).getContext('2d').getImageData(0, 0, 200, 200).data)"
    return np.array(page.evaluate(script, canvas))


def on_stage(page, x, y):
    box = page.locator("#stage").bounding_box()
    return box["x"] + x * box["width"], box["y"] + (1 - y) * box["height"]


def test_dragging_shows_what_is_imagined_and_then_what_happened(page):
    sprite = page.evaluate("cobra.scene.sprites.at(-1)")  # the front-most
    before = pixels(page, "imagined")
    x, y = on_stage(page, sprite["x"], sprite["y"])
    page.mouse.move(x, y)
    page.mouse.down()
    dx = -40 if sprite["x"] > 0.5 else 40
    for part in range(1, 11):
        page.mouse.move(x + dx * part / 10, y)
        time.sleep(0.02)
    page.wait_for_function("cobra.latencies.length > 0")
    assert page.inner_text("#imagined-hint") == "if you let go now"
    assert np.any(pixels(page, "imagined") != before)
    assert page.evaluate("cobra.scene.sprites.at(-1)") == sprite  # nothing has happened yet
    page.mouse.up()
    page.wait_for_function("document.getElementById('true-error').textContent !== '\u2013'")
    assert page.evaluate("cobra.scene.sprites.at(-1)") != sprite
    page.click("#undo")
    page.wait_for_function("before => cobra.scene.sprites.at(-1).x === before.x", arg=sprite)


def test_the_keyboard_alone_suffices(page):
    page.focus("#stage")
    page.keyboard.press(".")
    for _ in range(4):
        page.keyboard.press("ArrowUp")
    page.wait_for_function("cobra.latencies.length > 0")
    page.keyboard.press("Enter")
    page.wait_for_function("document.getElementById('true-error').textContent !== '\u2013'")
    page.focus("#tab-play")
    page.keyboard.press("ArrowRight")
    assert page.is_visible("#panel-look")


def test_every_control_has_a_label(page):
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, canvas:not([aria-hidden])')]
            .filter((e) => !(e.labels?.length || e.textContent.trim() || e.getAttribute('aria-label')))
            .map((e) => e.outerHTML)"""
    )
    assert unnamed == []


def test_sprites_are_edited_by_hand(page):
    page.select_option("#world-task", "sorting")
    page.click("#world-go")
    page.wait_for_function("cobra.scene.sprites.length === 2 && cobra.scene.goals.length === 5")
    page.click("#sprite-add")
    page.wait_for_function("cobra.scene.sprites.length === 3 && cobra.scene.undo > 1")
    page.select_option("#sprite-shape", "star_5")
    page.wait_for_function("cobra.scene.sprites[2].shape === 'star_5'")
    page.click("#sprite-remove")
    page.wait_for_function("cobra.scene.sprites.length === 2")


def test_looking_inside(page):
    page.click("#tab-look")
    page.click("input[value=masks]")
    page.wait_for_function("cobra.layers.masks && document.querySelectorAll('#latents input').length")
    page.wait_for_timeout(500)
    before = pixels(page, "traversal-scene")
    page.locator("#latent-0").fill("1.5")
    for _ in range(100):
        page.wait_for_timeout(100)
        if np.any(pixels(page, "traversal-scene") != before):
            break
    else:
        pytest.fail("the slider changed nothing")
    page.click("input[value=curiosity]")
    page.check("#layer-proposals")
    page.wait_for_function("cobra.layers.curiosity && cobra.proposals")
    assert page.is_visible("#legend-bar")


def test_watching_a_shipped_agent(page):
    page.click("#tab-watch")
    page.select_option("#watch-agent", "shipped:goal_finding_new_shape")
    page.wait_for_function("cobra.agent === 'shipped:goal_finding_new_shape'")
    page.check("#show-goals")
    page.locator("#watch-pace").fill("0")
    page.click("#watch-run")
    page.wait_for_function("/of \\d+ episodes solved/.test(document.getElementById('watch-text').textContent)")
    page.click("#watch-run")


def test_teaching_by_goal_to_success_saving_and_loading(page, runs):
    page.click("#tab-teach")
    page.click("#part-example")
    page.wait_for_function("cobra.scene.sprites.length === 3")
    page.click("#teach-start")
    page.wait_for_function("cobra.learned?.episodes >= 30 && cobra.learned.recent >= 0.9")
    page.click("#lesson-pause")
    page.wait_for_function("document.getElementById('lesson-pause').textContent === 'Go on'")
    page.fill("#save-name", "upper-left")
    page.click("#save")
    page.wait_for_function("document.getElementById('saved').textContent.startsWith('Saved')")
    page.click("#copy")
    source = page.inner_text("#source")
    page.reload()
    page.wait_for_selector("body[data-ready=yes]")
    page.click("#tab-watch")
    page.select_option("#watch-agent", "run:upper-left")
    page.wait_for_function("cobra.agent === 'run:upper-left'")
    page.click("#watch-step")
    page.wait_for_function("document.getElementById('watch-text').textContent.startsWith('Step 1')")

    import cobra_rl
    from cobra_rl.evaluation.task import play_episodes
    from cobra_rl.spriteworld import Spriteworld

    namespace = {}
    exec(source, namespace)
    agent = cobra_rl.Agent.load(runs / "upper-left")
    played = play_episodes(agent.policy, agent.params, Spriteworld(namespace["task"]), 32, seed=3)
    assert played.success.mean() >= 0.8


def test_judging_by_hand(page):
    page.click("#tab-teach")
    page.click("input[value=hand]")
    page.click("#teach-start")
    page.wait_for_selector("#judge-try:enabled")
    page.click("#judge-try")
    for count, key in enumerate("234", 1):
        page.wait_for_selector("#judge-say:enabled")
        page.keyboard.press(key)
        page.wait_for_function(f"document.getElementById('lesson-text').textContent.startsWith('{count} judgements')")


def test_the_guide_leads_through_four_steps(browser, address):
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
    page.set_default_timeout(SLOW)
    page.goto(address)
    page.wait_for_selector("#guide:not([hidden])")
    for step in range(1, 5):
        assert page.inner_text("#guide-count") == f"{step} of 4"
        page.click("#guide-next")
    assert page.is_hidden("#guide")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
