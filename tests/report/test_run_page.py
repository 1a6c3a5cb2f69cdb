from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from filelock import FileLock

from tests.report.document import report
from tests.report.folders import EVIL, NOW, make_picture, make_run, write


def test_a_run_shows_its_metrics_before_and_after(tmp_path: Path) -> None:
    page = report(make_run(tmp_path / "night", accuracies=(0.25, 0.5, 0.75)))
    cards = [card.text for card in page.all("div", "card")]
    assert any(card.startswith("k-NN top-1 0.250 \u2192 0.750 +0.500") for card in cards)
    assert [element.text for element in page.all("h1")] == ["night"]


def test_the_command_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    page = report(make_run(tmp_path / "night", "method=dino", 'note="a b"', "tags=[x,y]"))
    command = f"""python train.py method=dino 'note="a b"' 'tags=[x,y]' hydra.run.dir={tmp_path}/night"""
    assert [code.text for code in page.all("code") if "train.py" in code.text] == [command]


def test_a_run_from_python_says_that_it_has_no_command(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "night")
    (folder / ".hydra" / "overrides.yaml").unlink()
    page = report(folder)
    assert "no command" in page.section("commands")
    assert "None" not in page.section("commands")


def test_every_metric_has_a_chart_in_its_part_of_the_page(tmp_path: Path) -> None:
    page = report(make_run(tmp_path / "night"))
    charts = {figure.text.split()[0]: figure.inside[-2].attributes["id"] for figure in page.all("figure", "chart")}
    assert charts == {"Loss": "learning", "k-NN": "accuracy", "Learning": "schedules"}


def test_a_chart_is_drawn_and_put_into_words_without_a_script(tmp_path: Path) -> None:
    page = report(make_run(tmp_path / "night", accuracies=(0.25, 0.5, 0.75)))
    drawings = [svg for svg in page.all("svg") if "k-NN" in svg.attributes.get("aria-label", "")]
    assert [svg.attributes["aria-label"] for svg in drawings] == ["k-NN top-1. 0.250 \u2192 0.750 at step 20"]
    lines = [path for path in page.all("path", "line") if path.inside[-1] is drawings[0]]
    assert [path.attributes["d"].count("L") for path in lines] == [2]  # three points
    assert any(line.inside[-1] is drawings[0] for line in page.all("line", "start"))


def test_a_run_whose_lock_is_held_is_running_whatever_an_earlier_start_wrote(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "night", status="preempted")
    with FileLock(folder / ".lock"):
        page = report(folder)
    assert [status.text for status in page.all("span", "running")] == ["\u25b6 running"]
    assert "in epoch 2 of 4" in page.all("header")[0].text


def test_a_run_that_holds_its_folder_and_has_long_been_silent_says_so(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "night", status=None)
    for file in folder.iterdir():
        os.utime(file, (NOW - 3700, NOW - 3700))
    with FileLock(folder / ".lock"):
        page = report(folder)
    assert page.all("p", "reason")[0].text == "nothing new in its files for 1 h 1 min"


def test_looking_at_a_run_does_not_keep_it_from_starting(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "night")
    report(folder)
    with FileLock(folder / ".lock", blocking=False):
        pass


def test_a_run_without_summary_that_nobody_holds_was_killed(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "night", status=None)
    write(folder / "checkpoints" / "index.json", json.dumps({"checkpoints": {"step00000010.ckpt": {"step": 10}}}))
    for file in folder.iterdir():
        os.utime(file, (NOW - 7200, NOW - 7200))
    page = report(folder)
    assert [status.text for status in page.all("span", "killed")] == ["\u2717 killed"]
    assert "last sign 2 h 0 min ago" in page.all("p", "reason")[0].text
    assert f"python train.py resume={folder}" in page.section("commands")
    assert "0.750" in page.all("header")[0].text  # from metrics.csv


def test_a_run_without_a_lock_counts_as_running_while_it_writes(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "night", status=None)
    (folder / ".lock").unlink()
    for file in folder.iterdir():
        os.utime(file, (NOW - 5, NOW - 5))
    assert report(folder).all("p", "reason")[0].text == "no lock tells whether it still runs; last sign 5 s ago"
    for file in folder.iterdir():
        os.utime(file, (NOW - 7200, NOW - 7200))
    assert report(folder).all("span", "killed")


def test_a_row_that_a_kill_cut_short_is_left_out(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "night", status=None)
    with (folder / "metrics.csv").open("a") as file:
        file.write("30,,,0.99")
    assert "0.99" not in report(folder).html


def test_a_failed_run_says_why(tmp_path: Path) -> None:
    page = report(make_run(tmp_path / "night", status="failed", error="NonFiniteLossError: the loss is nan"))
    assert page.all("p", "reason")[0].text == "NonFiniteLossError: the loss is nan"


def test_a_run_that_has_not_begun_has_a_page(tmp_path: Path) -> None:
    write(tmp_path / "night" / ".hydra" / "overrides.yaml", "- method=dino\n")
    page = report(tmp_path / "night")
    assert page.all("span", "waiting")
    assert page.all("figure", "chart") == []


def test_files_that_cannot_be_read_are_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "night")
    write(folder / "summary.json", '{"status": "comp')
    write(folder / "config_resolved.yaml", "a: [1\n")
    write(folder / "evaluation" / "knn.json", "[1]")
    make_picture(folder, "views").write_bytes(b"\x89PNG\r\n\x1a\n")
    page = report(folder)
    lines = [line for line in page.all("li") if line.inside[-1].attributes.get("class") == "notices"]
    names = ["summary.json", "config_resolved.yaml", "evaluation/knn.json", "plots/views.png"]
    assert [line.text.split()[0] for line in lines] == names
    assert "k-NN" in page.section("accuracy")


def test_values_that_are_not_finite_are_counted_and_not_drawn(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "night")
    with (folder / "metrics.csv").open("a") as file:
        file.write("25,nan,,,2\n26,inf,,,2\n")
    page = report(folder)
    assert "2 values not drawn" in page.section("learning")
    (data,) = (script.text for script in page.all("script") if script.attributes.get("type") == "application/json")
    loss = json.loads(data)["charts"][0]
    assert [point[:2] for point in loss["lines"][0]["points"]] == [[5, 8], [15, 4]]


def test_pictures_are_in_the_page_and_wide_ones_made_smaller(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "night")
    make_picture(folder, "views", (64, 48))
    make_picture(folder, "attention", (3200, 100))
    make_picture(folder, "curves")
    images = [image for image in report(folder).all("img") if "src" in image.attributes]
    assert [(image.attributes["width"], image.attributes["height"]) for image in images] == [
        ("1600", "50"),
        ("64", "48"),
    ]
    assert all(image.attributes["src"].startswith("data:image/png;base64,") for image in images)
    assert all(image.attributes["alt"] for image in images)


def test_every_key_of_the_config_is_there_and_typed_ones_are_marked(tmp_path: Path) -> None:
    config = {"seed": 7, "optimizer": {"lr": 1e-05, "betas": [0.9, 0.95], "rule": None}, "trainer": {"fast": True}}
    page = report(make_run(tmp_path / "night", "optimizer.lr=1e-5", config=config))
    assert page.table("Keys of optimizer")[1:] == [
        ["optimizer.lr typed", "1e-05"], ["optimizer.betas", "[0.9, 0.95]"], ["optimizer.rule", "null"],
    ]  # fmt: skip
    assert page.table("Keys of top level")[1:] == [["seed", "7"]]
    assert page.table("Keys of trainer")[1:] == [["trainer.fast", "true"]]


def test_results_of_evaluations_are_shown(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "night")
    candidates = [{"features": "cls1", "top1": 0.88}, {"features": "cls4", "top1": 0.9123}]
    result = {"metric": "linear_top1", "value": 0.9123, "candidates": candidates, "config": {"seed": 3}}
    write(folder / "evaluation" / "linear.json", json.dumps(result))
    page = report(folder)
    assert page.table("evaluation/linear.json result")[1:] == [["metric", "linear_top1"], ["value", "0.9123"]]
    assert page.table("evaluation/linear.json: candidates")[1:] == [["cls1", "0.88"], ["cls4", "0.9123"]]
    assert page.table("Config of evaluation/linear.json")[1:] == [["config.seed", "3"]]


@pytest.mark.parametrize("place", ["override", "error", "log", "metric", "config", "checkpoint", "evaluation"])
def test_text_of_a_run_never_becomes_markup(place: str, tmp_path: Path) -> None:
    harmless = report(make_run(tmp_path / "plain", "note=x", config={"note": "x"}, status="failed", error="x"))
    words = EVIL if place == "override" else "x"
    folder = make_run(
        tmp_path / "night", f"note={words}", config={"note": EVIL if place == "config" else "x"}, status="failed",
        error=EVIL if place == "error" else "x",
    )  # fmt: skip
    if place == "log":
        write(folder / "train.log", f"{EVIL}\n\x1b[31mred\x1b[0m\n")
    if place == "metric":
        write(folder / "metrics.csv", f'step,"val/{EVIL.replace(chr(34), chr(34) * 2)}"\n0,1\n10,2\n')
    if place == "checkpoint":
        write(folder / "checkpoints" / "index.json", json.dumps({"checkpoints": {EVIL: {"step": 1}}}))
    if place == "evaluation":
        write(folder / "evaluation" / "knn.json", json.dumps({EVIL: EVIL, "list": [{EVIL: EVIL}]}))
    page = report(folder)
    assert len(page.all("script")) == len(harmless.all("script")) == 2
    assert [image for image in page.all("img") if "onerror" in image.attributes] == []
    shown = EVIL.replace("'", "'\"'\"'") if place == "override" else EVIL  # as a shell wants it
    assert shown in page.all("body")[0].text
    assert "\x1b" not in page.html
