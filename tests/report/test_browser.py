"""The page in a real browser: Chromium, driven by Selenium (make test-browser)."""

import base64
import json
import os
import shutil
import time
from pathlib import Path

import pytest
from selenium import webdriver

from report.run_folders import three_schedulers, write_run
from speedup_patch.evaluation.run import content_digest
from speedup_patch.report.page import write_report

pytestmark = pytest.mark.browser

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars"
)
PHONE, DESK = 390, 1200


class Browser:
    """A Chromium with one page open, and what it logged while opening it."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, page, width=DESK, theme="light"):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": width == PHONE})
        media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        for log in ("browser", "performance"):
            self.driver.get_log(log)
        self.driver.get(page.as_uri())
        self.wait(lambda: self.run("return document.documentElement.dataset.ready") == "yes")

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait(self, met, seconds=20.0):
        end = time.monotonic() + seconds
        while not met():
            assert time.monotonic() < end, "the page did not get there"
            time.sleep(0.05)

    def find(self, selector):
        return self.driver.find_elements("css selector", selector)

    def errors(self):
        return [entry for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self):
        """Every address that was asked for, but for those of the browser's own start page."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
            and not message["params"]["request"]["url"].startswith("chrome://")
        ]

    def save_picture(self, path):
        size = self.run("return [document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        path.write_bytes(base64.b64decode(shot["data"]))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver, binary = shutil.which("chromedriver"), shutil.which("chromium") or shutil.which("google-chrome")
    if not driver or not binary:
        pytest.fail("needs a browser: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield Browser(started)
    started.quit()


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory, patch_folder):
    contents = {str(patch_folder): content_digest(str(patch_folder))}
    folder = tmp_path_factory.mktemp("runs") / "run"
    return write_run(folder, three_schedulers(str(patch_folder)), contents=contents, traces=True)


@pytest.fixture(scope="module")
def page(run_folder):
    pytest.importorskip("plotly")
    return write_report([run_folder], run_folder.parent / "report.html").path


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path_factory.mktemp("pictures"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.parametrize(("width", "theme"), [(DESK, "light"), (DESK, "dark"), (PHONE, "light"), (PHONE, "dark")])
def test_it_opens_from_disk_without_errors_requests_or_sideways_scrolling(browser, page, pictures, width, theme):
    browser.open(page, width, theme)
    assert browser.errors() == []
    requests = browser.requests()
    assert requests.count(page.as_uri()) == 1
    assert [url for url in requests if url != page.as_uri() and not url.startswith(("data:", "blob:"))] == []
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run("return document.documentElement.dataset.theme") == theme
    drawn, wanted = browser.find(".canvas .main-svg"), browser.find(".canvas")
    assert len(wanted) >= 6
    assert len(
        {element.find_element("xpath", "ancestor::*[contains(@class,'canvas')]").id for element in drawn}
    ) == len(wanted)
    picture = pictures / f"report-{'phone' if width == PHONE else 'desk'}-{theme}.png"
    browser.save_picture(picture)
    assert picture.stat().st_size > 20_000


def test_the_table_shows_the_numbers_of_results_json(browser, page, run_folder):
    browser.open(page)
    published = json.loads((run_folder / "results.json").read_text())["schedulers"]
    rows = {
        row.get_attribute("data-scheduler"): row for row in browser.find("table[data-run] tbody tr[data-scheduler]")
    }
    assert set(rows) == set(published)
    for spec, row in rows.items():
        cells = {cell.get_attribute("data-key"): cell for cell in row.find_elements("css selector", "td")}
        figures = published[spec]
        for key in ("success_rate", "speedup", "steps_mean", "success_difference", "rate_mean", "policy_calls"):
            assert float(cells[key].get_attribute("data-value")) == figures[key]
        seen = {key: cell.text.split("\n") for key, cell in cells.items()}
        assert seen["success_rate"][0] == f"{figures['successes']}/{figures['episodes']}"
        assert float(seen["speedup"][0][:-1]) == pytest.approx(figures["speedup"], abs=0.005)
        ends = [float(end) for end in seen["speedup"][1].split(" \N{EN DASH} ")]
        assert ends == pytest.approx(figures["speedup_interval"], abs=0.005)
        assert float(seen["steps_mean"][0]) == pytest.approx(figures["steps_mean"], abs=0.5)


POINT = """
const canvas = document.querySelector('[data-figure="episodes-0"]');
const trace = canvas._fullData.findIndex((trace) => trace.customdata && trace.customdata[0] === arguments[0]);
const index = canvas._fullData[trace].x.indexOf(arguments[1]);
const {xaxis, yaxis} = canvas._fullLayout, box = canvas.getBoundingClientRect();
return [box.left + xaxis._offset + xaxis.d2p(canvas._fullData[trace].x[index]),
        box.top + yaxis._offset + yaxis.d2p(canvas._fullData[trace].y[index])];
"""


def click_episode(browser, spec, seed):
    """A real click of the mouse on one episode's point."""
    browser.run("document.querySelector('[data-figure=\"episodes-0\"]').scrollIntoView({block: 'center'})")
    x, y = browser.run(POINT, spec, seed)
    for kind, button in (("mouseMoved", "none"), ("mousePressed", "left"), ("mouseReleased", "left")):
        event = {"type": kind, "x": x, "y": y, "button": button, "clickCount": int(button == "left")}
        browser.driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)
        time.sleep(0.2)  # Plotly looks for the nearest point at most every 50 ms, and clicks what it last found


@pytest.mark.parametrize(("spec", "seed"), [("fixed:2", 3), ("base", 1)])
def test_a_click_on_an_episode_shows_its_timeline(browser, page, run_folder, spec, seed):
    browser.open(page)
    (timeline,) = browser.find(".timeline")
    assert (timeline.get_attribute("data-spec"), timeline.get_attribute("data-seed")) != (spec, str(seed))
    click_episode(browser, spec, seed)
    browser.wait(lambda: timeline.get_attribute("data-seed") == str(seed))
    assert timeline.get_attribute("data-spec") == spec
    lines = (run_folder / "episodes.jsonl").read_text().splitlines()
    (result,) = [r for r in map(json.loads, lines) if r["scheduler"] == spec and r["seed"] == seed]
    words = timeline.find_element("css selector", ".words").text
    assert (
        f"{spec} on seed {seed}: {'solved' if result['success'] else 'not solved'} in {result['steps']} steps" in words
    )
    shown = browser.run("return arguments[0].querySelector('.canvas').data.map((trace) => trace.name)", timeline)
    assert {"rate", "left command", "left fingers", "predicted deviation", "tolerance"} <= set(shown)
    assert browser.errors() == []


def test_an_episode_can_be_chosen_without_a_mouse(browser, page):
    browser.open(page, PHONE)
    (timeline,) = browser.find(".timeline")
    first = timeline.get_attribute("data-seed")
    browser.run("arguments[0].querySelector('.step[data-by=\"1\"]').click()", timeline)
    assert timeline.get_attribute("data-seed") != first
    browser.run(
        "const box = arguments[0].querySelector('.spec'); box.value = 'base'; box.dispatchEvent(new Event('change'))",
        timeline,
    )
    assert timeline.get_attribute("data-spec") == "base"


def test_the_button_turns_the_theme_over_and_the_plots_with_it(browser, page):
    browser.open(page, theme="light")
    font = "return document.querySelector('.canvas')._fullLayout.font.color"
    before = browser.run(font)
    browser.find("#theme")[0].click()
    assert browser.run("return document.documentElement.dataset.theme") == "dark"
    assert browser.run(font) != before


def test_a_plot_saves_itself_as_svg(browser, page, tmp_path):
    browser.open(page)
    browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    button = browser.find('[data-figure="pareto-0"] .modebar-btn[data-title="Save as SVG"]')[0]
    browser.run("arguments[0].click()", button)
    browser.wait(lambda: (tmp_path / "pareto-0.svg").exists())
    assert "<svg" in (tmp_path / "pareto-0.svg").read_text()
    assert browser.errors() == []
