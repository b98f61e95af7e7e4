"""Film the page while an agent is taught, as the README shows it.

    .venv/bin/python -m benchmarks.tools.play_film [--out docs/play.gif] | --stills FOLDER

With --stills it takes pictures instead of each panel, light and dark, as wide as a laptop and as a phone, to look at.
"""

import argparse
import io
import time
from pathlib import Path

from PIL import Image

from benchmarks.tools.page import LEARNT, opened, set_example, until

WIDTH = 880  # of the film, in pixels
LEARNING = 24  # frames of learning, or a few more


def film(out: Path) -> None:
    """Put a task together, learn it to 90 %, and let the agent show it."""
    frames: list[Image.Image] = []

    def shoot(times: int = 1) -> None:
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        picture = picture.resize((WIDTH, round(WIDTH * picture.height / picture.width)), Image.Resampling.LANCZOS)
        frames.extend([picture.quantize(96, dither=Image.Dither.NONE)] * times)

    with opened(viewport={"width": 1280, "height": 690}) as page:
        set_example(page)
        time.sleep(1.0)
        shoot(6)
        page.click("#teach-start")
        page.locator("#lesson-text").scroll_into_view_if_needed()
        until(page, "cobra.learned?.count > 0")
        begun = len(frames)
        while not page.evaluate(LEARNT):
            shoot()
            time.sleep(1.0)
        frames[begun:] = frames[begun :: max(1, (len(frames) - begun) // LEARNING)]  # as many on any machine
        shoot(4)
        page.click("#lesson-act")
        page.check("#show-goals")
        page.evaluate("scrollTo(0, 0)")
        for _ in range(24):
            time.sleep(0.4)
            shoot()
    frames[0].save(out, save_all=True, append_images=frames[1:], duration=220, loop=0, optimize=True)
    print(f"{len(frames)} frames: {out}, {out.stat().st_size / 1e6:.1f} MB")


def stills(folder: Path) -> None:
    """Take pictures of the panels."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {"laptop": {"width": 1440, "height": 900}, "phone": {"width": 390, "height": 844}}
    with opened(viewport=sizes["laptop"]) as page:
        page.select_option("#env-task", "clustering")
        page.click("#env-go")
        until(page, "cobra.scene.sprites.length === 4")
        for tab in ("play", "look", "watch", "teach"):
            page.click(f"#tab-{tab}")
            if tab == "look":
                page.click("input[value=curiosity]")
                page.check("#layer-proposals")
                until(page, "cobra.layers.curiosity && cobra.proposals")
            for name, size in sizes.items():
                page.set_viewport_size(size)  # pyright: ignore[reportArgumentType]
                for scheme in ("light", "dark"):
                    page.emulate_media(color_scheme=scheme)
                    time.sleep(0.5)
                    page.screenshot(path=folder / f"{tab}-{name}-{scheme}.png", full_page=True)
    print(f"Pictures: {folder}")


def main() -> None:
    """Film, or take pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/play.gif"))
    parser.add_argument("--stills", type=Path)
    args = parser.parse_args()
    if args.stills:
        stills(args.stills)
    else:
        film(args.out)


if __name__ == "__main__":
    main()
