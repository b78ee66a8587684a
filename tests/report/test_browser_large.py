"""Many settings stay legible, charts can be zoomed, tables sorted, and everything saved."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from tests.report import browser as own
from tests.report.browser import command, js, surroundings, wait

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(own.missing() is not None, reason=f"{own.missing()} is not installed"),
]

NAME = "permuted-digits-3"


@pytest.fixture
def driver(window: Chrome, large: Path) -> Chrome:
    """The browser with the page as it first appears."""
    surroundings(window)
    window.get(large.as_uri())
    return window


@pytest.fixture
def save(driver: Chrome, tmp_path: Path) -> Callable[[str, str], Path]:
    """Press a button and wait for its file."""
    command(driver, "Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))

    def press(selector: str, name: str) -> Path:
        click(driver, selector)
        wait(lambda: (tmp_path / name).exists())
        return tmp_path / name

    return press


def click(driver: Chrome, selector: str) -> None:
    js(driver, "document.querySelector(arguments[0]).click()", selector)


def in_section(part: str, rest: str) -> str:
    return f"section[aria-labelledby='{NAME}-{part}'] {rest}"


def draw(driver: Chrome, part: str) -> None:
    """The first chart of a section is drawn."""
    own.scroll_to(driver, driver.find_element(By.CSS_SELECTOR, in_section(part, ".chart")))
    wait(lambda: driver.find_elements(By.CSS_SELECTOR, in_section(part, ".chart[data-drawn]")))


def names(driver: Chrome, part: str = "average") -> list[str]:
    """What the first chart of a section shows."""
    draw(driver, part)
    code = "return document.querySelector(arguments[0]).data.map((trace) => trace.name)"
    return list(js(driver, code, in_section(part, ".chart")))


def y_range(driver: Chrome, part: str = "average") -> list[float]:
    code = "return document.querySelector(arguments[0])._fullLayout.yaxis.range.map(Number)"
    return list(js(driver, code, in_section(part, ".chart")))


def rows(driver: Chrome, part: str = "numbers") -> list[str]:
    """The names of the rows of a table that are seen."""
    code = """return [...document.querySelectorAll(arguments[0])]
        .filter((one) => one.checkVisibility()).map((one) => one.textContent.slice(1))"""
    return list(js(driver, code, in_section(part, "tbody tr:first-child > th")))


def test_a_dozen_is_shown_and_a_filter_chooses(driver: Chrome) -> None:
    shown = names(driver)
    assert len(shown) == len(rows(driver)) == 12
    assert {"EWC", "Fine-tuning"} <= set(shown)
    legend = driver.find_element(By.CSS_SELECTOR, ".study .legend")
    assert legend.size["height"] < 0.3 * 900
    assert "10 of 15 settings" in legend.text
    click(driver, "[data-show=all]")
    assert len(names(driver)) == len(rows(driver)) == 17
    field = legend.find_element(By.TAG_NAME, "input")
    field.send_keys("ucl beta 4")
    expected = [f"UCL, beta 4, alpha {k}" for k in range(3)]
    assert sorted(names(driver)) == sorted(rows(driver)) == expected
    assert "3 of 17 shown" in legend.text
    field.clear()
    field.send_keys(" ")
    assert names(driver) == shown
    click(driver, "[data-family]")  # all of UCL
    assert names(driver) == rows(driver) == ["EWC", "Fine-tuning"]


def test_hiding_rescales_and_reset_undoes_a_zoom(driver: Chrome) -> None:
    draw(driver, "average")
    low, high = y_range(driver)
    click(driver, ".legend [data-group='16']")  # fine-tuning, far below the others
    wait(lambda: y_range(driver)[0] > low + 0.1)
    click(driver, ".legend [data-group='16']")
    wait(lambda: y_range(driver) == [low, high])
    click(driver, in_section("average", "[data-tool=in]"))
    wait(lambda: y_range(driver)[0] > low and y_range(driver)[1] < high)
    click(driver, in_section("average", "[data-tool=out]"))
    click(driver, in_section("average", "[data-tool=out]"))
    wait(lambda: y_range(driver)[0] < low)
    click(driver, in_section("average", "[data-tool=reset]"))
    wait(lambda: y_range(driver) == [low, high])
    mode = "return document.querySelector(arguments[0])._fullLayout.dragmode"
    assert js(driver, mode, in_section("average", ".chart")) == "zoom"
    click(driver, in_section("average", "[data-tool=pan]"))
    wait(lambda: js(driver, mode, in_section("average", ".chart")) == "pan")


def test_names_of_points_do_not_meet(driver: Chrome) -> None:
    click(driver, "[data-show=all]")
    draw(driver, "plane")
    selector = in_section("plane", ".annotation-text-g")
    wait(lambda: driver.find_elements(By.CSS_SELECTOR, selector))
    boxes = [one.rect for one in driver.find_elements(By.CSS_SELECTOR, selector)]
    assert len(boxes) > 3
    for k, one in enumerate(boxes):
        for other in boxes[k + 1 :]:
            apart_x = abs(one["x"] - other["x"]) >= min(one["width"], other["width"]) - 2
            apart_y = abs(one["y"] - other["y"]) >= min(one["height"], other["height"]) - 2
            assert apart_x or apart_y, (one, other)


def test_a_table_is_sorted_by_a_click_on_a_head(driver: Chrome) -> None:
    before = rows(driver)
    click(driver, in_section("numbers", "thead th:nth-child(2) button"))
    assert rows(driver) == before  # the best is first already
    click(driver, in_section("numbers", "thead th:nth-child(2) button"))
    assert rows(driver)[0] == "Fine-tuning"
    head = driver.find_element(By.CSS_SELECTOR, in_section("numbers", "thead th:nth-child(2)"))
    assert head.get_attribute("aria-sort") == "ascending"
    click(driver, in_section("numbers", "thead th:nth-child(1) button"))
    assert rows(driver)[-1] == "EWC"


def test_tables_are_saved_as_csv_and_latex(
    driver: Chrome, save: Callable[[str, str], Path]
) -> None:
    shown = rows(driver)
    found = save(in_section("numbers", "[data-tool=csv]"), f"{NAME}-numbers.csv")
    with found.open(newline="", encoding="utf-8") as file:
        head, *lines = csv.reader(file)
    assert head[:2] == ["Method", "Average accuracy"]
    assert [line[0] for line in lines] == shown
    text = save(in_section("numbers", "[data-tool=tex]"), f"{NAME}-numbers.tex").read_text()
    assert "\\toprule" in text
    assert text.count("\\\\") == len(shown) + 1
    assert "\\%" in text


def test_figures_are_saved_as_svg_png_and_pdf(
    driver: Chrome, save: Callable[[str, str], Path]
) -> None:
    js(driver, "document.querySelectorAll('details').forEach((one) => { one.open = true })")
    begins = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF-1.4"}
    for part in ("tasks", "matrix", "explored"):  # panels, heat maps, and both with a scale
        for kind, begin in begins.items():
            tool = in_section(part, f"figure > .tools [data-tool={kind}]")
            found = save(tool, f"{NAME}-{part}.{kind}").read_bytes()
            assert found.startswith(begin)
        text = found.decode("latin-1")
        assert text.count(" Tj") > 10  # text is text
        assert text.rstrip().endswith("%%EOF")


def test_on_a_phone_the_result_is_seen_without_scrolling(driver: Chrome) -> None:
    surroundings(driver, width=400)
    cell = driver.find_element(By.CSS_SELECTOR, in_section("numbers", "tbody td.number"))
    own.scroll_to(driver, cell)
    right = js(driver, "return arguments[0].getBoundingClientRect().right", cell)
    assert right <= 400
    assert js(driver, "return document.documentElement.scrollWidth") == 400
