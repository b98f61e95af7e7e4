"""The page in a real browser: Debian's chromium, driven by Playwright. Skipped where there is none.

One server with the shipped world serves all tests, started as a person does; any error on the console fails the test
that caused it. What is learnt to the full, and how fast, is measured by benchmarks/speed/play.py.
"""

import os
import re
import shutil
import subprocess
import sys
import time

import pytest
from fuzz import malformed

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("The page was not tested: chromium is not installed (apt install chromium).", allow_module_level=True)
pytest.importorskip("starlette")
playwright = pytest.importorskip("playwright.sync_api")

SECONDS = 300  # for what has to be compiled on a busy machine


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


PLAY = """
import sys
from cobra_rl import cli
from cobra_rl.play.catalogue import AgentCatalogue

def load(self, name, mode, really=AgentCatalogue.load):
    if name == "run:bug":
        raise RuntimeError("a bug")
    return really(self, name, mode)

AgentCatalogue.load = load
cli.main(sys.argv[1:])
"""  # `cobra play`, with one bug


@pytest.fixture(scope="module")
def address(runs):
    """Start `cobra play` and return the address that it prints."""
    env = {name: value for name, value in os.environ.items() if name != "JAX_DISABLE_MOST_OPTIMIZATIONS"}
    command = [sys.executable, "-c", PLAY, "play", "--no-browser", "--port", "0", "--runs", str(runs)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
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


def open_page(browser, address, **options):
    """Open a page and wait until its session is ready; return it, and the list to which its console's errors go."""
    page, said = browser.new_page(**{"viewport": {"width": 1280, "height": 800}} | options), []
    page.set_default_timeout(1000 * SECONDS)
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address)
    page.wait_for_selector("body[data-ready=yes]")
    return page, said


@pytest.fixture
def page(browser, address):
    """A fresh page, past the guide; nothing may have been said on its console, and no question refused."""
    page, said = open_page(browser, address)
    page.click("#guide-skip")
    yield page
    errors = page.evaluate("cobra.errors")
    page.close()
    assert said == []
    assert errors == []


def until(page, condition, argument=None):
    """Wait until a condition holds; Playwright's own way would need the page to allow `eval`."""
    deadline = time.monotonic() + SECONDS
    while not page.evaluate(condition, argument):
        assert time.monotonic() < deadline, f"{condition}: {page.inner_text('#status')} {page.inner_text('#notice')}"
        time.sleep(0.05)


def until_text(page, name, pattern):
    """Wait until the text of an element matches a pattern; return the match."""
    until(page, "([name, pattern]) => document.getElementById(name).textContent.match(pattern)", [name, pattern])
    return re.search(pattern, page.inner_text(f"#{name}"))


def drawn(page, canvas):
    """What a canvas shows, to be compared."""
    return page.evaluate("id => document.getElementById(id).toDataURL()", canvas)


def drag(page, sprite, dx, dy):
    """Take a sprite and pull it some pixels away, without letting go."""
    box = page.locator("#stage").bounding_box()
    x, y = box["x"] + sprite["x"] * box["width"], box["y"] + (1 - sprite["y"]) * box["height"]
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + dx, y + dy, steps=5)


def test_dragging_shows_what_is_imagined_and_then_what_happened(page):
    sprite = page.evaluate("cobra.scene.sprites.at(-1)")  # the front-most
    before = drawn(page, "imagined")
    drag(page, sprite, -40 if sprite["x"] > 0.5 else 40, 0)
    until(page, "cobra.latencies.length > 0")
    assert page.inner_text("#imagined-hint") == "if you let go now"
    assert drawn(page, "imagined") != before
    assert page.evaluate("cobra.scene.sprites.at(-1)") == sprite  # nothing has happened yet
    page.mouse.up()
    until_text(page, "true-error", r"\d")
    assert page.evaluate("cobra.scene.sprites.at(-1)") != sprite
    page.click("#undo")
    until(page, "before => cobra.scene.sprites.at(-1).x === before.x", sprite)


def test_sprites_are_edited_by_hand(page):
    page.select_option("#env-task", "sorting")
    page.click("#env-go")
    until(page, "cobra.scene.sprites.length === 2 && cobra.scene.goals.length === 5")
    page.click("#sprite-add")
    until(page, "cobra.scene.sprites.length === 3 && cobra.scene.undo > 1")
    page.select_option("#sprite-shape", "star_5")
    until(page, "cobra.scene.sprites[2].shape === 'star_5'")
    page.select_option("#sprite-colour", "blue")
    until(page, "cobra.scene.sprites[2].c0 === 0.6")
    page.click("#sprite-remove")
    until(page, "cobra.scene.sprites.length === 2")


def test_looking_inside(page):
    page.click("#tab-look")
    page.click("input[value=masks]")
    until(page, "cobra.layers.masks && document.querySelectorAll('#latents input').length")
    page.wait_for_timeout(500)
    before = drawn(page, "traversal-scene")
    page.locator("#latent-0").fill("1.5")
    for _ in range(100):
        page.wait_for_timeout(50)
        if drawn(page, "traversal-scene") != before:
            break
    else:
        pytest.fail("the slider changed nothing")
    page.click("input[value=curiosity]")
    page.check("#layer-proposals")
    until(page, "cobra.layers.curiosity && cobra.proposals?.actions.length === 128")
    assert page.is_visible("#legend-bar")


def test_the_keyboard_alone_suffices_and_every_control_has_a_label(page):
    page.focus("#stage")
    page.keyboard.press(".")
    for _ in range(4):
        page.keyboard.press("ArrowUp")
    until(page, "cobra.latencies.length > 0")
    page.keyboard.press("Enter")
    until_text(page, "true-error", r"\d")
    page.focus("#tab-play")
    page.keyboard.press("ArrowRight")
    assert page.is_visible("#panel-look")
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('button, input, select, canvas:not([aria-hidden])')]
            .filter((e) => !(e.labels?.length || e.textContent.trim() || e.getAttribute('aria-label')))
            .map((e) => e.outerHTML)"""
    )
    assert unnamed == []


def test_teaching_by_goal_to_success_saving_watching_and_loading(page, runs):
    page.click("#tab-teach")
    page.click("#part-example")
    until(page, "cobra.scene.sprites.length === 3")
    page.click("#teach-start")
    until(page, "cobra.learned?.episodes >= 15 && cobra.learned.recent >= 0.8")
    page.click("#lesson-pause")
    until_text(page, "lesson-pause", "Go on")
    page.fill("#save-name", "upper-left")
    page.click("#save")
    until_text(page, "saved", "Saved")
    page.click("#copy")
    until(page, "!document.getElementById('source').hidden")
    source = page.inner_text("#source")

    page.reload()
    page.wait_for_selector("body[data-ready=yes]")
    page.click("#tab-watch")
    page.select_option("#watch-agent", "run:upper-left")
    until(page, "cobra.agent === 'run:upper-left'")
    page.check("#show-goals")
    page.locator("#watch-pace").fill("0")
    page.click("#watch-run")
    assert int(until_text(page, "watch-text", r"(\d+) of 3 episodes solved")[1]) >= 1  # by chance none: 2 % solve it
    page.click("#watch-run")

    import cobra_rl
    from cobra_rl.spriteworld import Spriteworld

    exec(source, namespace := {})
    agent = cobra_rl.Agent.load(runs / "upper-left")
    assert agent.problem.environments()["train"] == Spriteworld(namespace["task"])


def test_judging_by_hand(page):
    page.click("#tab-teach")
    page.click("input[value=hand]")
    page.click("#teach-start")
    page.click("#judge-try:enabled")
    for count, key in enumerate("24", 1):
        page.wait_for_selector("#judge-say:enabled")
        page.keyboard.press(key)
        until_text(page, "lesson-text", f"^{count} judgement")


def test_the_guide_leads_through_four_steps_on_a_phone(browser, address):
    page, said = open_page(
        browser, address, viewport={"width": 390, "height": 844}, color_scheme="dark", has_touch=True, is_mobile=True
    )
    page.wait_for_selector("#guide:not([hidden])")
    for step in range(1, 5):
        assert page.inner_text("#guide-count") == f"{step} of 4"
        page.tap("#guide-next")
    assert page.is_hidden("#guide")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
    assert said == []


def test_a_thousand_malformed_messages_leave_the_live_session_alive(page):
    count = "(told) => { cobra.refused += told.type === 'error'; }"
    page.evaluate(f"cobra.refused = 0; cobra.connection.onMessage = {count}; 0")
    page.evaluate("texts => texts.forEach((text) => cobra.connection.socket.send(text))", malformed(1000))
    until(page, "cobra.refused === 1000")
    page.wait_for_timeout(500)  # until there may be messages again
    assert page.evaluate("cobra.connection.ask('look').then((answer) => answer.type)") == "seen"


def test_a_crash_is_said_and_the_session_starts_again(browser, address):
    page, _ = open_page(browser, address)
    page.evaluate("document.body.dataset.ready = 'no'")  # until it has started again
    page.evaluate("cobra.connection.ask('agent', { name: 'run:bug', mode: 'train' }).catch(() => 0); 0")
    until_text(page, "notice", "crashed.*starts again")
    page.wait_for_selector("body[data-ready=yes]")
    assert page.evaluate("cobra.connection.ask('look').then((answer) => answer.type)") == "seen"
    page.close()
