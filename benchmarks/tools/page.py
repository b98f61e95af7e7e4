"""The page of `cobra play` in chromium, for measurements and films."""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Page, sync_playwright

LEARNT = "cobra.learned?.episodes >= 30 && cobra.learned.recent >= 0.9"  # 27 of 30 episodes


@contextmanager
def opened(**options: Any) -> Iterator[Page]:
    """Start a server and open its page, past the guide; `options` are Playwright's, of the page."""
    with tempfile.TemporaryDirectory() as runs, sync_playwright() as playwright:
        command = [sys.executable, "-m", "cobra_rl", "play", "--no-browser", "--port", "0", "--runs", runs]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = re.search(r"http\S+", server.stdout.readline())
            assert address is not None
            chromium = shutil.which("chromium") or shutil.which("chromium-browser")
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(**options)
            page.set_default_timeout(600_000)
            page.goto(address[0])
            page.wait_for_selector("body[data-ready=yes]")
            page.click("#guide-skip")
            yield page
            browser.close()
            server.terminate()


def until(page: Page, condition: str, seconds: float = 600.0) -> None:
    """Wait until a condition holds; Playwright's own way would need the page to allow `eval`."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(condition):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{condition}: {page.inner_text('#status')}")
        time.sleep(0.05)


def set_example(page: Page) -> None:
    """Put the example's task together: squares to the upper left."""
    page.click("#tab-teach")
    page.click("#part-example")
    until(page, "cobra.scene.sprites.length === 3")
