"""The page in a real browser: drawn, silent, alone, and usable by mouse, keyboard and printer."""

import re
from pathlib import Path

import pytest
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.report import browser as own
from tests.report.browser import js, scroll_through, surroundings, wait
from uclearn.report.groups import COLORS

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(own.missing() is not None, reason=f"{own.missing()} is not installed"),
]

AVERAGE = "permuted-digits-5-average"


@pytest.fixture
def driver(window: Chrome, report: Path) -> Chrome:
    """The browser with the page as it first appears, in light on a wide screen."""
    surroundings(window)
    if window.current_url.partition("#")[0] != report.as_uri():
        window.get(report.as_uri())
    js(window, "window.scrollTo({top: 0, behavior: 'instant'})")
    return window


def chart_of(driver: Chrome, heading: str) -> WebElement:
    """The first chart under a heading, scrolled into view and drawn."""
    found = driver.find_element(By.CSS_SELECTOR, f"[aria-labelledby='{heading}'] .chart")
    own.scroll_to(driver, found)
    wait(lambda: found.get_attribute("data-drawn") is not None)
    return found


def hover(driver: Chrome, element: WebElement, heading: str) -> str:
    """What the chart says while the pointer rests on `element`."""
    ActionChains(driver).move_to_element(element).perform()
    selector = f"[aria-labelledby='{heading}'] .hoverlayer text"
    wait(lambda: driver.find_elements(By.CSS_SELECTOR, selector))
    texts = [one.text for one in driver.find_elements(By.CSS_SELECTOR, selector)]
    return " ".join(texts).replace("\xa0", " ")


def colors(driver: Chrome) -> tuple[str, str]:
    """Of the page, and of what is written at the axes of the charts."""
    code = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    page = js(driver, code, "body", "backgroundColor")
    return str(page), str(js(driver, code, f"[aria-labelledby='{AVERAGE}'] .xtick text", "fill"))


def test_every_chart_is_drawn_without_complaint_and_without_a_request(
    window: Chrome, report: Path
) -> None:
    own.requests(window)
    own.console(window)
    surroundings(window)
    window.get(report.as_uri())
    scroll_through(window)
    # on the page are as many lines and maps as in the data
    counts = js(
        window,
        """return [...document.querySelectorAll('.chart[data-drawn]')].map((chart) => [
             chart.querySelectorAll('.scatterlayer .trace, .heatmaplayer .hm').length,
             chart.data.length])""",
    )
    assert len(counts) > 25
    assert all(found == wanted for found, wanted in counts), counts
    assert own.console(window) == []
    assert {url.partition(":")[0] for url in own.requests(window)} <= {"file", "data", "blob"}


def test_a_request_would_be_refused(driver: Chrome) -> None:
    """The policy of the page is not just words."""
    own.console(driver)
    js(driver, "new Image().src = 'https://example.org/x.png'; fetch('data:,x').catch(() => 0)")
    wait(lambda: "Content Security Policy" in " ".join(own.console(driver)))


def test_pointing_at_a_chart_tells_the_nearest_and_the_others_best_first(driver: Chrome) -> None:
    chart = chart_of(driver, AVERAGE)
    values = js(driver, "return arguments[0].data.filter((t) => t.name).map((t) => t.y[2])", chart)
    # above the middle, where the third task is and UCL is nearest
    ActionChains(driver).move_to_element_with_offset(chart, 0, -150).perform()
    says = f"[aria-labelledby='{AVERAGE}'] .readout[data-says]"
    (readout,) = wait(lambda: driver.find_elements(By.CSS_SELECTOR, says))
    names = ("UCL", "EWC", "Fine-tuning")
    told = [f"{name} {100 * value:.1f} %" for name, value in zip(names, values, strict=True)]
    said = readout.text.replace("\xa0", " ")
    assert said.startswith(f"after task 3: {told[0]} (")  # and how far its seeds lie apart
    assert "3 seeds)" in said
    assert said.index(told[0]) < said.index(told[1]) < said.index(told[2])
    assert readout.find_element(By.TAG_NAME, "b").text.replace("\xa0", " ").startswith(told[0])
    # it stands below the chart, not on it
    assert readout.rect["y"] >= chart.rect["y"] + chart.rect["height"]
    assert chart.find_elements(By.CSS_SELECTOR, ".hoverlayer text") == []


def test_hovering_over_a_matrix_shows_the_accuracy(driver: Chrome) -> None:
    heading = "permuted-digits-5-matrix"
    chart = chart_of(driver, heading)
    value = js(driver, "return arguments[0].data[0].z[2][2]", chart)  # its middle
    said = hover(driver, chart.find_element(By.CSS_SELECTOR, ".nsewdrag"), heading)
    assert said == f"on task 3, after task 3: {100 * value:.1f}%"


def test_the_system_chooses_light_or_dark_and_the_charts_follow(driver: Chrome) -> None:
    chart_of(driver, AVERAGE)
    light = colors(driver)
    surroundings(driver, dark=True)
    wait(lambda: colors(driver)[1] != light[1])
    assert colors(driver)[0] != light[0]
    assert driver.find_element(By.ID, "theme").get_attribute("aria-pressed") == "true"
    surroundings(driver, dark=False)
    wait(lambda: colors(driver) == light)


def test_the_button_switches_and_it_is_remembered(driver: Chrome) -> None:
    chart_of(driver, AVERAGE)
    light = colors(driver)
    button = driver.find_element(By.ID, "theme")
    button.send_keys(Keys.ENTER)
    wait(lambda: colors(driver)[1] != light[1])
    dark = colors(driver)
    assert light[0] != dark[0]
    assert button.get_attribute("aria-pressed") == "true"
    driver.refresh()
    chart_of(driver, AVERAGE)
    assert colors(driver) == dark
    driver.find_element(By.ID, "theme").send_keys(Keys.ENTER)
    wait(lambda: colors(driver) == light)
    js(driver, "localStorage.clear(); delete document.documentElement.dataset.theme")


def test_all_text_and_lines_stand_out_from_what_is_behind_them(driver: Chrome) -> None:
    """WCAG 2.2: contrast of at least 4.5 for text, 3 for what carries meaning in a chart."""
    names = ["ink", "muted", "accent", "warning", *(f"series-{k}" for k in range(COLORS))]
    behind = ["page", "surface", "warning-surface"]

    def luminances() -> dict[str, float]:
        code = """const probe = document.body.appendChild(document.createElement('i'));
                  return arguments[0].map((name) => {
                    probe.style.color = `var(--${name})`;
                    return getComputedStyle(probe).color })"""
        shown = js(driver, code, names + behind)
        return dict(zip(names + behind, map(luminance, shown), strict=True))

    for dark in (False, True):
        surroundings(driver, dark=dark)
        found = luminances()
        for one in names:
            for other in ["warning-surface"] if one == "warning" else ["page", "surface"]:
                low, high = sorted((found[one], found[other]))
                needed = 3 if one.startswith("series") else 4.5
                assert (high + 0.05) / (low + 0.05) >= needed, (one, other, dark)


def luminance(color: str) -> float:
    """Relative luminance as WCAG defines it."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_the_legend_hides_a_method_in_all_figures_of_its_comparison(driver: Chrome) -> None:
    chart = chart_of(driver, AVERAGE)
    lines = ".scatterlayer .trace"
    before = len(chart.find_elements(By.CSS_SELECTOR, lines))
    first = driver.find_element(By.CSS_SELECTOR, ".legend button[data-group='0']")
    first.send_keys(Keys.SPACE)
    assert first.get_attribute("aria-pressed") == "false"
    wait(lambda: len(chart.find_elements(By.CSS_SELECTOR, lines)) == before - 3)  # band and line
    first.send_keys(Keys.ENTER)
    assert first.get_attribute("aria-pressed") == "true"
    wait(lambda: len(chart.find_elements(By.CSS_SELECTOR, lines)) == before)


def test_everything_can_be_reached_and_used_by_keyboard(window: Chrome, report: Path) -> None:
    surroundings(window)
    window.get(report.as_uri())
    js(
        window,
        """window.reached = [];
           addEventListener('focusin', ({ target: at }) => {
             const outline = getComputedStyle(at).outlineStyle !== 'none';
             window.reached.push([at.tagName, at.className, at.id, outline]);
           })""",
    )
    while True:
        before = len(js(window, "return window.reached"))
        ActionChains(window).send_keys(Keys.TAB * 50).perform()
        reached = js(window, "return window.reached")
        firsts = [k for k, stop in enumerate(reached) if stop[:2] == ["A", "skip"]]
        if len(firsts) > 1:  # it has started over
            reached = reached[: firsts[1]]
            break
        assert len(reached) > before
    assert reached[0][:2] == ["A", "skip"]
    assert all(outline for *_, outline in reached), "focus can be seen"
    kinds = {(tag, name or identity) for tag, name, identity, _ in reached}
    assert {("BUTTON", "theme"), ("BUTTON", "sort"), ("DIV", "scroll"), ("SUMMARY", "")} <= kinds
    tables = js(window, "return document.querySelectorAll('.scroll').length")
    closed = js(window, "return document.querySelectorAll('details:not([open]) .scroll').length")
    assert sum(name == "scroll" for _, name, *_ in reached) == tables - closed
    assert not any(tag == "svg" for tag, *_ in reached)
    # the first link skips to the results
    window.find_element(By.CSS_SELECTOR, "a.skip").send_keys(Keys.ENTER)
    wait(lambda: js(window, "return document.activeElement.id") == "main")


def test_what_opens_on_request_is_drawn_then(driver: Chrome) -> None:
    scroll_through(driver)
    before = own.drawn(driver)
    (summary, *_) = [
        one
        for one in driver.find_elements(By.TAG_NAME, "summary")
        if one.text.startswith("The same for")
    ]
    own.scroll_to(driver, summary)
    summary.send_keys(Keys.ENTER)
    wait(lambda: own.drawn(driver) > before)


def test_on_a_phone_only_tables_scroll_sideways(driver: Chrome) -> None:
    surroundings(driver, width=390)
    scroll_through(driver)
    assert js(driver, "return document.documentElement.scrollWidth") == 390
    widest = js(
        driver,
        "return Math.max(...[...document.querySelectorAll('.main-svg')].map("
        "(svg) => svg.getBoundingClientRect().right))",
    )
    assert widest <= 390


def test_it_prints_in_light_with_every_chart_within_the_paper(driver: Chrome) -> None:
    surroundings(driver, dark=True)
    # what the charts are when the paper is laid out
    js(
        driver,
        """addEventListener('beforeprint', () => {
             window.seen = [...document.querySelectorAll('.chart')]
               .filter((chart) => chart.checkVisibility())
               .map((chart) => chart.querySelector('.main-svg')?.getAttribute('width') ?? 'none');
             window.theme = document.documentElement.dataset.theme;
           })""",
    )
    pdf = own.print_pdf(driver)
    assert pdf.startswith(b"%PDF")
    assert js(driver, "return window.theme") == "light"
    widths = [float(width) for width in js(driver, "return window.seen")]
    assert len(widths) > 25
    assert max(widths) <= 688  # 182 mm, what A4 leaves between its margins
    wait(lambda: js(driver, "return document.documentElement.dataset.theme ?? null") is None)
    assert js(driver, "return document.getElementById('theme').ariaPressed") == "true"
    # and on the screen a chart fills its place again
    chart = chart_of(driver, AVERAGE)
    wait(
        lambda: js(
            driver,
            "const [chart] = arguments; const svg = chart.querySelector('.main-svg');"
            "return Math.abs(svg.clientWidth - chart.clientWidth) < 2 && chart.clientWidth > 900",
            chart,
        )
    )
