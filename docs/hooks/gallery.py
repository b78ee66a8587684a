"""Pictures of reports, from recorded runs: `python -m docs.hooks.gallery [NAME ...]`.

The one at the top of README is drawn from what `make demo` leaves, where that was made.

Needs chromium and its driver, as the tests of the report do.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait

ROOT = Path(__file__).parents[2]
_SETTLED = 4.0
"""Seconds until charts that have begun to be drawn are drawn, on a slow machine."""
_DRAWN = """
const part = document.getElementById(arguments[0])
part.scrollIntoView({behavior: 'instant'})
scrollBy({top: -110, behavior: 'instant'}) // from under the legend, which stays
return [...part.querySelectorAll('.chart')]
  .filter((chart) => chart.checkVisibility())
  .filter((chart) => chart.getBoundingClientRect().top < innerHeight)
  .every((chart) => 'drawn' in chart.dataset)
"""


class Picture(NamedTuple):
    """A part of a report."""

    name: str
    runs: str
    """The folder that it is drawn from."""
    part: str
    """The id of what is at the top of the picture."""
    width: int = 1200
    height: int = 760


ALL = (
    Picture("report", "build/demo", "main", height=1150),
    Picture("gallery/summary", "results/untuned", "summary", height=900),
    Picture("gallery/accuracy", "results/broad", "permuted-mnist-10-average"),
    Picture("gallery/ablations", "results/ablations", "permuted-mnist-10-ablations"),
    Picture("gallery/matrix", "results/untuned", "permuted-digits-10-matrix"),
    Picture(
        "gallery/settings",
        "results/grids",
        "permuted-mnist-3-on-validation-data-explored",
        height=900,
    ),
    Picture("gallery/rewards", "results/rl-four", "rl-paper-4-4-returns"),
    Picture("gallery/narrow", "results/untuned", "summary", width=420, height=840),
)


def main(*names: str) -> None:
    """Write the pictures of these names, or all."""
    there = [each for each in ALL if (ROOT / each.runs).is_dir()]
    wanted = [each for each in there if not names or each.name.split("/")[-1] in names]
    with tempfile.TemporaryDirectory() as place:
        driver = _chromium(Path(place) / "profile")
        try:
            for picture in wanted:
                page = Path(place) / f"{Path(picture.runs).name}.html"
                if not page.exists():
                    command = [sys.executable, "-m", "uclearn", "report"]
                    runs = str(ROOT / picture.runs)
                    subprocess.run([*command, runs, "-o", str(page)], check=True, cwd=place)
                _take(driver, page, picture)
        finally:
            driver.quit()


def _take(driver: Chrome, page: Path, picture: Picture) -> None:
    size = {"width": picture.width, "height": picture.height, "deviceScaleFactor": 1}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {**size, "mobile": False})
    driver.get(f"file://{page}")
    WebDriverWait(driver, 120).until(lambda here: here.execute_script(_DRAWN, picture.part))
    time.sleep(_SETTLED)
    driver.save_screenshot(str(ROOT / "docs" / f"{picture.name}.png"))


def _chromium(profile: Path) -> Chrome:
    options = ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={profile}")
    return Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))


if __name__ == "__main__":
    main(*sys.argv[1:])
