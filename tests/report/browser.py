"""A real browser without a window, held by Selenium."""

import base64
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webelement import WebElement

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,900",
)

_ALL_ABOVE_ARE_DRAWN = """
    return [...document.querySelectorAll('.chart')]
      .filter((chart) => chart.checkVisibility())
      .filter((chart) => chart.getBoundingClientRect().top < innerHeight)
      .every((chart) => 'drawn' in chart.dataset)
"""


def missing() -> str | None:
    """What is not installed; None if all is there."""
    return next((name for name in ("chromium", "chromedriver") if not shutil.which(name)), None)


@contextmanager
def browser(profile: Path) -> Iterator[Chrome]:
    """Chromium with a fresh profile that notes its console and every request."""
    options = ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # the path is given, so that Selenium does not look for a driver on the network
    driver = Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
    try:
        yield driver
    finally:
        driver.quit()


def js(driver: Chrome, code: str, *arguments: Any) -> Any:
    """What `code` returns in the page."""
    return driver.execute_script(code, *arguments)


def command(driver: Chrome, name: str, **arguments: Any) -> Any:
    """What the browser's own interface for developers answers."""
    return driver.execute_cdp_cmd(name, arguments)


def surroundings(driver: Chrome, *, dark: bool = False, width: int = 1280) -> None:
    """The page is on a system that is light or dark, in a window of that width."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    command(driver, "Emulation.setEmulatedMedia", features=[scheme])
    command(
        driver,
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=900,
        deviceScaleFactor=1,
        mobile=width < 600,
    )
    # the page hears of it with the next frame
    js(driver, "return new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))")


def drawn(driver: Chrome) -> int:
    """How many charts are drawn."""
    return int(js(driver, "return document.querySelectorAll('.chart[data-drawn]').length"))


def scroll_to(driver: Chrome, element: WebElement) -> None:
    """Into the middle of the window, without gliding there."""
    js(driver, "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)


def scroll_through(driver: Chrome) -> None:
    """Down to the end, as a reader does, until every chart that can be seen is drawn."""
    height = int(js(driver, "return document.documentElement.scrollHeight"))
    for top in range(0, height, 1500):
        js(driver, f"window.scrollTo({{top: {top}, behavior: 'instant'}})")
        wait(lambda: js(driver, _ALL_ABOVE_ARE_DRAWN))


def wait(condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Until `condition` holds; what it returned."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
    return value


def requests(driver: Chrome) -> list[str]:
    """Every address that the page asked for since the last call."""
    entries = driver.get_log("performance")  # type: ignore[no-untyped-call]
    messages = [json.loads(entry["message"])["message"] for entry in entries]
    sent = [m for m in messages if m["method"] == "Network.requestWillBeSent"]
    # not those of the empty page that the browser starts with
    own = [m["params"] for m in sent if m["params"]["documentURL"].startswith("file:")]
    return [one["request"]["url"] for one in own]


def console(driver: Chrome) -> list[str]:
    """Everything the page complained about since the last call."""
    return [entry["message"] for entry in driver.get_log("browser")]  # type: ignore[no-untyped-call]


def print_pdf(driver: Chrome) -> bytes:
    """The page as it comes out of the printer."""
    answer = command(driver, "Page.printToPDF", printBackground=True, preferCSSPageSize=True)
    return base64.b64decode(answer["data"])
