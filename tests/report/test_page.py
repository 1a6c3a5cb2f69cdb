from __future__ import annotations

import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from spt.config.errors import ConfigError
from spt.report.page import read_page, write_report
from tests.report.document import Document, report
from tests.report.folders import NOW, make_picture, make_run, make_sweep

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(params=["run", "sweep"])
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Document:
    if request.param == "run":
        make_picture(make_run(tmp_path / "night"), "views")
        return report(tmp_path / "night")
    return report(make_sweep(tmp_path / "lr"))


def test_headings_go_down_one_level_at_a_time(page: Document) -> None:
    levels = [int(element.tag[1]) for element in page.elements if element.tag in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))


def test_nothing_is_fetched(page: Document) -> None:
    links = [value for element in page.elements for key, value in element.attributes.items() if key in ("src", "href")]
    assert links
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "url(" not in page.html.replace("url(#", "")
    assert "@import" not in page.html


def test_links_and_labels_lead_to_ids_that_are_there_once(page: Document) -> None:
    ids = Counter(element.attributes["id"] for element in page.elements if "id" in element.attributes)
    assert set(ids.values()) == {1}
    for element in page.elements:
        targets = [element.attributes.get("href", "#")[1:], element.attributes.get("aria-labelledby", "")]
        assert all(target in ids for target in targets if target)


def test_tables_have_captions_and_scopes(page: Document) -> None:
    assert len(page.all("caption")) == len(page.all("table")) > 0
    assert all(head.attributes["scope"] in ("col", "row") for head in page.all("th"))
    assert all(svg.attributes.get("aria-label") or "aria-hidden" in svg.attributes for svg in page.all("svg"))


def test_there_is_one_of_each_landmark(page: Document) -> None:
    assert [len(page.all(tag)) for tag in ("header", "nav", "main", "footer")] == [1, 1, 1, 1]
    assert page.all("html")[0].attributes["lang"] == "en"


def test_only_the_page_s_own_script_and_style_are_allowed(page: Document) -> None:
    (policy,) = (meta.attributes["content"] for meta in page.all("meta") if "http-equiv" in meta.attributes)
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy
    assert not any(key == "style" or key.startswith("on") for element in page.elements for key in element.attributes)


def test_the_page_lies_in_the_folder_unless_another_place_is_named(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "night")
    assert write_report(folder, None, now=NOW) == folder / "report.html"
    assert write_report(folder, tmp_path / "there" / "a.html", now=NOW).is_file()


def test_a_folder_without_runs_is_refused_with_what_to_type(tmp_path: Path) -> None:
    (tmp_path / "some" / "inner").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"no run(.|\n)*try: python scripts/report.py .*/some/inner"):
        read_page(tmp_path / "some", now=NOW)
    with pytest.raises(ConfigError, match="nowhere is not a folder"):
        read_page(tmp_path / "nowhere", now=NOW)


def run_python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_script_prints_where_the_page_is_and_loads_no_torch(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "night")
    code = (
        "import runpy, sys; sys.argv = ['report.py', sys.argv[1]]; "
        "runpy.run_path('scripts/report.py', run_name='__main__'); "
        "sys.exit('torch' in sys.modules or 'lightning' in sys.modules)"
    )
    done = run_python("-c", code, str(folder))
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, str(folder / "report.html"), "")


def test_the_script_ends_with_status_2_and_no_traceback_where_there_is_no_run(tmp_path: Path) -> None:
    done = run_python("scripts/report.py", str(tmp_path / "nowhere"))
    assert done.returncode == 2
    assert done.stderr.startswith(f"{tmp_path}/nowhere is not a folder.")
    assert "Traceback" not in done.stderr
