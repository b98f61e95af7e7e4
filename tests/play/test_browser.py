"""The page in a real browser: Debian's chromium, driven by Playwright. Skipped where there is none.

One server with the shipped world serves all tests, started as a person does; any error on the console fails the test
that caused it. What is learnt to the full, and how fast, is measured by benchmarks/speed/play.py.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
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


def statuses(page):
    """Record what the status says from now on."""
    page.evaluate(
        """() => {
            const status = document.getElementById('status');
            window.said = [];
            new MutationObserver(() => said.push(status.textContent)).observe(status, { childList: true });
        }"""
    )


def bare(page):
    """What was refused, which the fixture would take for a failure; from now on it counts anew."""
    return page.evaluate("cobra.errors.splice(0)")


def test_before_it_is_live_it_says_what_it_does_and_no_control_can_be_used(browser, address):
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    sockets = []
    page.route_web_socket(re.compile("/socket"), lambda opened: sockets.append(opened))  # and answers nothing
    page.goto(address)
    page.wait_for_selector("#waiting >> text=Connecting")
    until(page, "window.cobra?.connection.socket.readyState === 1")
    sockets[0].send(json.dumps({"type": "preparing", "what": "imagining a push", "done": 1}))
    page.wait_for_selector("#waiting >> text=2 of 6: imagining a push")
    assert "compiled for this machine" in page.inner_text("#waiting")
    assert page.inner_text("#status") == "getting ready (2 of 6): imagining a push …"
    usable = "(e) => e.checkVisibility() && !e.matches(':disabled')"
    assert page.evaluate(f"[...document.querySelectorAll('button, input, select')].filter({usable}).length") == 0
    page.mouse.click(200, 300)  # on the scene: nothing happens
    page.close()


def test_a_refusal_is_shown_and_nothing_waits_for_it(page, runs):
    """Whatever is refused settles: of the schema, of the session, by name."""
    ask = "([type, fields]) => cobra.connection.ask(type, fields).then(() => 'done', (error) => error.message)"
    assert "name" in page.evaluate(ask, ["agent", {"name": "run:no name", "mode": "train"}])
    assert "known type" in page.evaluate(ask, ["eval", {}])
    assert "a name of at most 40 letters" in page.evaluate(ask, ["save", {"name": "my agent!"}])
    assert "no agent 'run:gone'" in page.evaluate(ask, ["agent", {"name": "run:gone", "mode": "train"}])
    page.click("#tab-watch")
    page.select_option("#watch-agent", "shipped:sorting")
    until(page, "cobra.agent === 'shipped:sorting' && document.getElementById('status').textContent === 'ready'")
    page.evaluate("cobra.agents.push('run:gone')")
    page.evaluate("const o = new Option('gone', 'run:gone'); document.getElementById('watch-agent').append(o)")
    page.select_option("#watch-agent", "run:gone")
    until_text(page, "notice", "There is no agent 'run:gone' here")
    until(page, "document.getElementById('status').textContent === 'ready'")
    assert page.input_value("#watch-agent") == page.evaluate("cobra.agent") == "shipped:sorting"
    assert page.is_enabled("#watch-step")
    assert len(bare(page)) == 1


def test_a_ring_shows_how_far_noise_may_carry_a_sprite_and_noise_can_be_switched_off(page):
    def pushed():
        sprite = page.evaluate("cobra.scene.sprites.at(-1)")
        aim = -40 if sprite["x"] > 0.5 else 40
        drag(page, sprite, aim, 0)
        until(page, "document.getElementById('imagined-hint').textContent === 'if you let go now'")
        end = sprite["x"] + aim / page.locator("#stage").bounding_box()["width"]
        until(page, f"Math.abs(cobra.ring.x - {end}) < 0.01")  # the last answer, not one to a move on the way
        ring = page.evaluate("cobra.ring")
        bright = """([id, ring]) => {
            const canvas = document.getElementById(id);
            const [x, y] = [(ring.x + 2 * 0.05) * canvas.width, (1 - ring.y) * canvas.height];
            const copy = new OffscreenCanvas(6, 2).getContext('2d', { willReadFrequently: true });
            copy.drawImage(canvas, 3 - x, 1 - y);
            const { data } = copy.getImageData(0, 0, 6, 2);
            return Math.max(...data.filter((_, i) => i % 4 < 3));
        }"""
        seen = [page.evaluate(bright, [name, ring]) > 200 for name in ("stage", "imagined")]
        page.mouse.up()
        until_text(page, "imagined-hint", "what it had imagined")
        after = page.evaluate("cobra.scene.sprites.at(-1)")
        return ring, seen, (after["x"] - ring["x"], after["y"] - ring["y"])

    for scene in ("exploration", "sorting"):  # of one's own seed, and of a task
        page.select_option("#env-task", scene)
        page.click("#env-go")
        until(page, f"document.getElementById('env-task').value === '{scene}' && cobra.scene.noise === 0.05")
    ring, seen, off = pushed()
    assert ring["noise"] == 0.05
    assert seen == [True, True]
    assert max(map(abs, off)) > 1e-4
    assert "6 of 7" in page.inner_text("#noise-text")
    after = page.evaluate("cobra.scene.sprites.at(-1)")
    assert page.evaluate("[cobra.ring.landed.x, cobra.ring.landed.y]") == [after["x"], after["y"]]
    assert "Noise carried it" in page.inner_text("#outcome-text")
    page.uncheck("#noise")
    until(page, "cobra.scene.noise === 0")
    assert "switched off" in page.inner_text("#noise-text")
    ring, seen, off = pushed()
    assert ring["noise"] == 0
    assert off == (pytest.approx(0, abs=1e-3), pytest.approx(0, abs=1e-3))
    page.select_option("#env-variant", "released")
    page.click("#env-go")
    until(page, "document.getElementById('noise').disabled")
    assert "there is none" in page.inner_text("#noise-text")


def slide(page, name, end):
    """Push a slider to one of its ends, at once, so that no answer of the server comes between; return its value."""
    return page.eval_on_selector(
        name,
        """(slider, end) => {
            slider.value = slider[end];
            slider.dispatchEvent(new Event('input', { bubbles: true }));
            slider.dispatchEvent(new Event('change', { bubbles: true }));
            return Number(slider.value);
        }""",
        end,
    )


def test_sliders_keep_sprites_in_the_frame(page):
    for axis in "xy":
        for end in ("min", "max"):
            value = slide(page, f"#sprite-{axis}", end)
            assert 0.04 < value < 0.96
            until(page, f"Math.abs(cobra.scene.sprites[0].{axis} - {value}) < 1e-3 && cobra.scene.undo > 0")
    slide(page, "#sprite-scale", "max")
    until(page, "cobra.scene.sprites[0].scale === 0.2 && cobra.scene.sprites[0].x < 0.91")
    page.click("#tab-look")
    until(page, "document.querySelectorAll('#latents input').length")
    for latent in range(2):  # the place; the frame goes from -2 to 2
        assert [float(page.get_attribute(f"#latent-{latent}", end)) for end in ("min", "max")] == [-1.6, 1.6]


def choose_all(page, menu, then):
    """Choose every entry of a menu once; `then` gets each."""
    values = page.eval_on_selector_all(f"{menu} option", "entries => entries.map((entry) => entry.value)")
    assert len(values) > 1
    for value in values:
        page.select_option(menu, value)
        then(value)
    return {menu}


def test_every_entry_of_every_menu_can_be_chosen(page):
    def scene_of(_):
        undo = page.evaluate("cobra.scene.undo")
        page.click("#env-go")
        until(page, "undo => cobra.scene.undo > undo || undo === 100", undo)

    def sprite(condition):
        return lambda value: until(page, f"value => {condition}", value)

    done = set()
    for menu in ("#env-task", "#env-mode", "#env-variant"):
        done |= choose_all(page, menu, scene_of)
    page.select_option("#env-task", "clustering")
    scene_of(None)
    until(page, "cobra.scene.sprites.length === 4")
    done |= choose_all(page, "#sprite-which", sprite("cobra.selected === Number(value)"))
    done |= choose_all(page, "#sprite-shape", sprite("cobra.scene.sprites[cobra.selected].shape === value"))
    done |= choose_all(page, "#sprite-colour", lambda value: None)
    until(page, "cobra.scene.sprites[cobra.selected].c0 === 0.78")  # the last one, purple

    page.click("#tab-watch")

    def agent(value):
        chosen = "value => cobra.agent === value && document.getElementById('status').textContent === 'ready'"
        until(page, chosen, value)
        assert page.input_value("#watch-agent") == value
        if value in ("none", "shipped:sorting", "shipped:sorting-released"):
            page.evaluate("cobra.scene.undo = -1")
            page.click("#watch-step")
            until(page, "cobra.agent === 'none' || cobra.scene.undo > 0")

    done |= choose_all(page, "#watch-agent", agent)
    assert page.evaluate("cobra.agent") == "shipped:sorting-released"
    titles = page.eval_on_selector_all("#watch-agent optgroup", "groups => groups.map((group) => group.label)")
    assert titles[:2] == ["By the paper's rules", "By the rules of Spriteworld 1.0.2"]
    done |= choose_all(page, "#watch-mode", lambda mode: until(page, "mode => cobra.mode === mode", mode))

    page.click("#tab-teach")
    done |= choose_all(page, "#practice", lambda value: None)
    for part in ("goal", "alike", "apart"):
        page.click(f"#part-{part}")
        rule = f"#parts fieldset:nth-of-type({page.evaluate('cobra.parts.length')})"
        for number in range(1, 3):
            field = f"{rule} label:nth-of-type({number}) select"
            choose_all(page, field, lambda value: None)
    assert page.evaluate("cobra.parts.map((part) => part.kind)") == ["goal", "alike", "apart"]
    assert page.evaluate("cobra.parts[1].other") == "purple"
    menus = page.eval_on_selector_all("select[id]", "menus => menus.map((menu) => `#${menu.id}`)")
    assert set(menus) == done


@contextlib.contextmanager
def tunnel(there):
    """Pass connections to a port on from another, as `ssh -L` does; yield that one."""
    held = [socket.create_server(("127.0.0.1", 0))]
    threads = []

    def begin(work, *given):
        threads.append(threading.Thread(target=work, args=given))
        threads[-1].start()

    def copy(one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def forward():
        with contextlib.suppress(OSError):  # until it is closed
            while True:
                held.append(held[0].accept()[0])
                held.append(socket.create_connection(("127.0.0.1", there)))
                begin(copy, *held[-2:])
                begin(copy, *held[:-3:-1])

    begin(forward)
    yield held[0].getsockname()[1]
    for each in held:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
    for thread in threads:
        thread.join()


def test_through_a_tunnel_with_another_port(browser, address):
    with tunnel(int(re.search(r":(\d+)/", address)[1])) as port:
        page, said = open_page(browser, re.sub(r"127\.0\.0\.1:\d+", f"localhost:{port}", address))
        assert page.evaluate("cobra.connection.ask('look').then((answer) => answer.type)") == "seen"
        page.close()
    assert said == []


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
    page.evaluate("document.getElementById('watch-pace').value = 0")  # it shows quickly what it has learnt
    statuses(page)
    page.click("#teach-start")
    until(page, "cobra.learned?.count > 0")
    assert "ready" not in page.evaluate("said")  # while its first steps are compiled
    assert "getting ready to learn: its first steps are compiled …" in page.evaluate("said")
    assert (
        int(until_text(page, "learnt", r"^Learnt: it solved (\d+) of its last 30 episodes, after \d+ rewarded")[1])
        >= 27
    )
    steps = page.evaluate("cobra.learned.count")
    assert page.inner_text("#lesson-pause") == "Go on"
    assert page.inner_text("#status") == "learnt"
    assert page.evaluate("cobra.lesson.curve[0][0]") <= 20  # the whole curve, from the first episode
    assert int(until_text(page, "learnt", r"It has shown you 3 new scenes, and solved (\d)\.")[1]) >= 2
    assert page.evaluate("cobra.learned.count") == steps  # it has stopped
    page.click("#lesson-pause")
    until(page, "steps => cobra.learned.count > steps + 5", steps)
    assert page.inner_text("#lesson-pause") == "Pause"
    page.click("#lesson-pause")
    until_text(page, "lesson-pause", "Go on")
    page.fill("#save-name", "my agent!")
    page.click("#save")
    until_text(page, "saved", "“my agent!” cannot be a name: use at most 40 letters")
    page.fill("#save-name", "upper-left")
    page.click("#save")
    until_text(page, "saved", "Saved")
    page.click("#copy")
    until(page, "!document.getElementById('source').hidden")
    source = page.inner_text("#source")
    assert re.search(r"agent = cobra_rl.Agent.learn\(task, steps=\d+\)\s*$", source)
    page.click("#save")
    until_text(page, "saved", "There is a run 'upper-left' already; choose another name")
    assert len(bare(page)) == 1

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


def test_judging_on_a_phone_needs_no_scrolling(browser, address):
    page, said = open_page(browser, address, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.tap("#guide-skip")
    page.tap("#tab-teach")
    page.tap("#panel-teach label:has(input[value=hand])")
    page.tap("#teach-start")
    page.wait_for_selector("#judge-try:enabled")
    page.tap("#judge-try")
    page.wait_for_selector("#judge-say:enabled")
    scrolled = page.evaluate("scrollY")
    scene, question = (page.locator(name).bounding_box() for name in ("#stage", "#judge"))
    assert scene["y"] >= 0
    assert scene["y"] + scene["height"] <= question["y"]
    assert question["y"] + question["height"] <= 844
    page.tap("#judge-good")
    until_text(page, "lesson-text", "^1 judgement")
    assert page.evaluate("scrollY") == scrolled
    page.close()
    assert said == []


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
