from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from spt.report.page import write_report
from tests.report.browser import CHROMIUM, Browser, browser
from tests.report.folders import EVIL, NOW, make_picture, make_run, make_sweep, write

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium: apt-get install chromium"),
]
PHONE, DESK = 375, 1280

# of every text that is seen: its contrast with what is painted behind it (WCAG 2), and what it says
CONTRASTS = """(() => {
  const parse = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode, element = text.parentElement, style = getComputedStyle(element);
    if (!text.textContent.trim() || !element.checkVisibility() || element.closest(".unseen, :disabled, script"))
      continue;
    const ink = element.closest("svg") ? style.fill : style.color;
    const [a, b] = [light(parse(ink)), light(behind(element))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), text.textContent.trim().slice(0, 40)]);
  }
  return found;
})()"""

# elements that stick out of the window and lie in no box that scrolls
STICKING_OUT = """[...document.body.querySelectorAll("*")].filter((one) => {
  const box = one.getBoundingClientRect();
  return box.width && box.right > innerWidth + 1 && !one.closest(".scroll, pre, .skip, .unseen, svg, dialog");
}).map((one) => one.outerHTML.slice(0, 80))"""

NAMELESS = """[...document.querySelectorAll("button, input, a, [tabindex], summary, svg[role], img[src]")]
  .filter((one) => !["aria-label", "alt"].some((name) => one.getAttribute(name)))
  .filter((one) => !one.textContent.trim() && !one.labels?.length && !one.querySelector("img[alt]"))
  .map((one) => one.outerHTML.slice(0, 80))"""


class Reports(NamedTuple):
    """Pages to look at."""

    run: Path
    sweep: Path


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """Of a run with hostile words in all its files, and of a sweep."""
    folder = tmp_path_factory.mktemp("reports")
    config = {"seed": 1, "trainer": {"max_epochs": 4}, "optimizer": {"lr": 0.1, "betas": [0.9, 0.95]}, "note": EVIL}
    run = make_run(folder / "night", f"note={EVIL}", config=config, status="failed", error=EVIL)
    write(run / "train.log", f"{EVIL}\n" * 40 + "x" * 500)
    write(run / "evaluation" / "knn.json", json.dumps({"value": 0.9, EVIL: EVIL}))
    for name, size in (("views", (600, 200)), ("attention", (200, 1200))):
        make_picture(run, name, size)
    sweep = make_sweep(folder / "lr")
    make_picture(sweep / "0", "views")
    return Reports(write_report(run, None, now=NOW), write_report(sweep, None, now=NOW))


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def values_shown(window: Browser) -> str:
    return str(window.run("document.querySelector('.tip')?.innerText ?? ''"))


def focus_chart(window: Browser, metric: str) -> None:
    script = (
        "[...document.querySelectorAll('.chart')].find((c) => c.textContent.includes(METRIC)).querySelector('.plot')"
    )
    window.run(f"window.plot = {script.replace('METRIC', json.dumps(metric))}; plot.focus(); plot.scrollIntoView()")


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", ["run", "sweep"])
def test_a_page_loads_without_network_errors_or_sideways_scrolling(
    name: str, width: int, window: Browser, reports: Reports
) -> None:
    window.open(reports.run if name == "run" else reports.sweep, width=width)
    assert window.complaints == []
    assert all(address.startswith(("file:", "data:", "about:")) for address in window.requests)
    assert window.run("document.documentElement.scrollWidth") == width
    assert window.run(STICKING_OUT) == []
    assert window.run("document.querySelectorAll('.chart path.line').length") > 0  # type: ignore[operator]


def test_words_of_a_run_are_shown_and_do_not_run(window: Browser, reports: Reports) -> None:
    window.open(reports.run)
    assert window.run("typeof window.harm") == "undefined"
    assert window.run("document.querySelector('.reason').textContent") == EVIL


def test_a_script_that_got_into_the_page_would_still_not_run(window: Browser, reports: Reports, tmp_path: Path) -> None:
    page = reports.run.read_text()
    spoilt = tmp_path / "spoilt.html"
    write(spoilt, page.replace("<main", "<script>window.harm = 1</script><img src=x onerror='window.harm = 2'><main"))
    window.open(spoilt)
    assert window.run("typeof window.harm") == "undefined"
    assert window.run("document.documentElement.className") == "js"  # the page's own script does run
    assert any("Content Security Policy" in complaint for complaint in window.complaints)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["run", "sweep"])
def test_every_text_stands_out_from_its_ground(name: str, scheme: str, window: Browser, reports: Reports) -> None:
    window.open(reports.run if name == "run" else reports.sweep, scheme=scheme)
    ground = window.run("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 19, 24)"}[scheme]
    window.run("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    found = window.run(CONTRASTS)
    assert isinstance(found, list)
    assert len(found) > 50
    assert [entry for entry in found if entry[0] < 4.5] == []  # type: ignore[index, operator]


@pytest.mark.parametrize("name", ["run", "sweep"])
def test_everything_that_can_be_reached_has_a_name(name: str, window: Browser, reports: Reports) -> None:
    window.open(reports.run if name == "run" else reports.sweep)
    assert window.run(NAMELESS) == []


def test_a_table_is_a_stop_for_keys_only_where_it_scrolls(window: Browser, reports: Reports) -> None:
    stops = "[...document.querySelectorAll('#jobs .scroll, #incomplete .scroll')].map((one) => one.tabIndex)"
    window.open(reports.sweep, width=DESK)
    assert window.run(stops) == [-1, -1]
    window.open(reports.sweep, width=PHONE)
    assert window.run(stops) == [0, 0]


def test_the_first_key_leads_past_the_navigation(window: Browser, reports: Reports) -> None:
    window.open(reports.run)
    window.press("Tab")
    assert window.run("document.activeElement.className") == "skip"
    assert window.run("document.activeElement.getBoundingClientRect().left") > 0  # type: ignore[operator]
    window.press("Enter")
    assert window.run("document.activeElement.id") == "main"


def test_keys_read_the_values_of_a_chart_and_zoom_all_of_them(window: Browser, reports: Reports) -> None:
    window.open(reports.sweep)
    focus_chart(window, "val/knn_top1")
    window.press("ArrowRight", "ArrowRight", "End")
    spoken = window.run("document.getElementById('reading').textContent")
    assert spoken == "step 20, optimizer.lr=0.1 0.8 (0.75 to 0.85, 2 runs), optimizer.lr=0.2 0.6 (0.5 to 0.7, 2 runs)"
    assert "0.8 (0.75 to 0.85, 2 runs)" in values_shown(window)
    assert window.run("document.querySelector('.reset-zoom').disabled") is True
    window.press("+")
    assert window.run("document.querySelector('.reset-zoom').disabled") is False
    assert window.run("document.getElementById('reading').textContent") == "steps 15 to 20"
    window.press("Escape")
    assert window.run("document.querySelector('.reset-zoom').disabled") is True


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_values_are_shown_within_the_window(width: int, window: Browser, reports: Reports) -> None:
    window.open(reports.sweep, width=width)
    focus_chart(window, "val/knn_top1")
    for key in ("Home", "ArrowRight", "End"):
        window.press(key)
        script = (
            "(({left, right}) => left >= 0 && right <= innerWidth)(plot.querySelector('.tip').getBoundingClientRect())"
        )
        assert window.run(script) is True
    assert window.run("[...plot.querySelectorAll('.tip svg')].map((one) => one.clientWidth)") == [30, 30]
    assert window.run("document.documentElement.scrollWidth") == width


def test_the_mouse_shows_values_and_zooms(window: Browser, reports: Reports) -> None:
    window.open(reports.run)
    focus_chart(window, "val/knn_top1")
    box = window.run("(({left, top, width, height}) => [left, top, width, height])(plot.getBoundingClientRect())")
    assert isinstance(box, list)
    left, top, width, height = (float(str(value)) for value in box)
    window.mouse("mouseMoved", left + width - 14, top + height / 2)
    assert values_shown(window).split() == ["step", "20", "0.75"]
    window.mouse("mousePressed", left + width / 2, top + height / 2)
    window.mouse("mouseMoved", left + width - 20, top + height / 2)
    window.mouse("mouseReleased", left + width - 20, top + height / 2)
    assert window.run("document.querySelector('.reset-zoom').disabled") is False
    ticks = window.run("[...plot.querySelectorAll('.tick.middle')].map((tick) => Number(tick.textContent))")
    assert isinstance(ticks, list)
    assert min(float(str(tick)) for tick in ticks) >= 8


def test_a_chart_turns_logarithmic(window: Browser, reports: Reports) -> None:
    window.open(reports.run)
    focus_chart(window, "train/loss")
    window.run("window.button = plot.closest('figure').querySelector('.log'); button.focus()")
    # pixels between the two lowest marks of the axis, as a share of those between the two highest
    gaps = """(() => {
      const marks = [...plot.querySelectorAll('.tick.end')].filter((mark) => Number(mark.textContent));
      const [y, names] = [marks.map((mark) => mark.y.baseVal[0].value), marks.map((mark) => mark.textContent)];
      return [names.join(), (y[0] - y[1]) / (y.at(-2) - y.at(-1))];
    })()"""
    assert window.run(gaps) == ["4,5,6,7,8", pytest.approx(1)]
    window.press("Enter")
    assert window.run("button.getAttribute('aria-pressed')") == "true"
    assert window.run(gaps) == ["4,5,6,7,8", pytest.approx(math.log(5 / 4) / math.log(8 / 7))]


def test_settings_are_drawn_or_not_as_the_reader_ticks_them(window: Browser, reports: Reports) -> None:
    window.open(reports.sweep)
    focus_chart(window, "val/knn_top1")
    lines = "new Set([...plot.querySelectorAll('.line, .dot')].map((one) => one.classList[1])).size"
    assert window.run(lines) == 3
    window.run("document.querySelector('input[data-series]').focus()")
    window.press("Space")
    assert window.run(lines) == 2
    assert window.run("document.querySelectorAll('#accuracy .key li:not([hidden])').length") == 2


def test_tables_are_sorted_by_the_column_that_is_chosen(window: Browser, reports: Reports) -> None:
    window.open(reports.sweep)
    window.run(
        "window.head = [...document.querySelectorAll('#jobs th')].find((one) => one.innerText === 'val/knn_top1')"
    )
    window.run("head.querySelector('button').focus()")
    jobs = "[...document.querySelectorAll('#jobs tbody tr')].map((row) => row.cells[0].textContent).join('')"
    assert window.run(jobs) == "012345\u2013"
    window.press("Enter")
    assert window.run("head.getAttribute('aria-sort')") == "descending"
    assert window.run(jobs) == "103254\u2013"
    window.press("Enter")
    assert window.run("head.getAttribute('aria-sort')") == "ascending"
    assert window.run(jobs) == "425301\u2013"  # what was not measured is last either way


def test_a_config_is_searched(window: Browser, reports: Reports) -> None:
    window.open(reports.run)
    window.run("document.querySelector('#config .search').focus()")
    window.press(*"betas")
    rows = "[...document.querySelectorAll('#config tbody tr')].filter((row) => row.checkVisibility())"
    assert window.run(f"{rows}.map((row) => row.innerText)") == ["optimizer.betas\t[0.9, 0.95]"]
    assert window.run("document.querySelector('#config .found').textContent") == "1 found"


def test_a_picture_opens_large_and_closes_by_key(window: Browser, reports: Reports) -> None:
    window.open(reports.run)
    window.run("document.querySelector('.enlarge').focus()")
    window.press("Enter")
    assert window.run("document.getElementById('large').open") is True
    assert window.run("document.querySelector('#large img').naturalWidth") == 200
    window.press("Escape")
    assert window.run("document.getElementById('large').open") is False
    assert window.run("document.activeElement.className") == "enlarge"


def test_without_scripts_the_charts_are_there_and_the_buttons_are_not(window: Browser, reports: Reports) -> None:
    window.open(reports.sweep, has_scripts=False)
    assert window.run("document.documentElement.className") == ""
    assert window.run("[...document.querySelectorAll('.chart svg')].every((one) => one.clientHeight > 150)") is True
    curves = "[...document.querySelectorAll('#accuracy path.line')]"
    assert window.run(f"{curves}.map((one) => one.parentNode.tagName + (one.getBoundingClientRect().width > 100))") == [
        "svgtrue", "svgtrue",
    ]  # fmt: skip
    seen = "[...document.querySelectorAll('.js-only, .legend input')].filter((one) => one.checkVisibility()).length"
    assert window.run(seen) == 0
