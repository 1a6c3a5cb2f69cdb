"""Typed words become a checked config, or one error with everything that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig

from spt.config.composer import chosen_options, open_composer
from spt.config.errors import ConfigError
from spt.config.tree import ConfigTree


def compose(tree: ConfigTree, *words: str) -> DictConfig:
    """The checked config of one run."""
    with open_composer(tree) as composer:
        return composer.compose(composer.read(words, multirun=False), job=0)


def refusal(tree: ConfigTree, *words: str) -> str:
    """What is said about words that cannot work."""
    with pytest.raises(ConfigError) as error:
        compose(tree, *words)
    return str(error.value)


def test_a_method_brings_its_companions_and_the_command_line_still_wins(tree: ConfigTree) -> None:
    assert compose(tree, "method=beta").masks.min_keep == 2
    assert "masks" not in compose(tree, "method=beta", "~masks")


def test_a_recipe_is_chosen_by_data_and_method_and_can_be_switched_off(tree: ConfigTree) -> None:
    assert compose(tree, "method=beta").method.lr == 0.7
    assert compose(tree, "method=beta", "data=large").method.lr == 0.2
    assert compose(tree, "method=beta", "~recipe").method.lr == 0.2


def test_an_experiment_beats_the_method_and_a_key_beats_the_experiment(tree: ConfigTree) -> None:
    assert chosen_options(compose(tree, "experiment=long"))["method"] == "beta"
    assert compose(tree, "experiment=long", "trainer.max_epochs=4").trainer.max_epochs == 4


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (["methd=beta"], ["no group or key methd", "did you mean: method"]),
        (["method=betta"], ["no method called betta", "alpha, beta", "try: method=beta"]),
        (["method=alpha", "method.lrr=1"], ["no key method.lrr", "did you mean: method.lr"]),
        (["lr=1"], ["did you mean: method.lr"]),
        (["method.momentum.start=0.5"], ["it exists with method=beta"]),
        (["method.momentum.strat=0.5"], ["method.momentum.start (with method=beta)"]),
        (["trainer.max_epoch=4"], ["did you mean: trainer.max_epochs"]),
        (["+unknown.key=1"], ["no key unknown.key"]),
        (["++unknown.key=1"], ["no key unknown.key"]),
        (["+method.new=1"], ["no key method.new"]),
        (["+logger.new=1"], ["no key logger.new"]),
        (["method.lr={rate: 1}"], ["no key method.lr.rate"]),
        (["method.options={a: {b: 1}}"], ["try: +method.options.a.b=1"]),
        (["method.options.width=1"], ["try: +method.options.width=1"]),
        (["+method.lr=1"], ["there already", "try: method.lr=1"]),
        (["method.lr="], ["gives no value"]),
        (["method.lr"], ["gives no value"]),
        (["method.lr=fast"], ["method.lr is a number", "fast"]),
        (["trainer.max_epochs=[1,2]"], ["trainer.max_epochs is a number"]),
        (["data.mean=0.5"], ["data.mean is a list", "'data.mean=[0.5,0.4]'"]),
        (["trainer=long"], ["no trainer called long"]),
        (["+experiment=long"], ["try: experiment=long"]),
        (["method=null"], ["every run needs a method"]),
        (["~method"], ["every run needs a method"]),
        (["logger=null"], ["try: logger=none"]),
        (["~logger"], ["try: logger=none"]),
        (["masks=null"], ["try: ~masks"]),
        (["recipe=null"], ["try: ~recipe"]),
        (["method=alpha,beta"], ["-m method=alpha,beta", "'method=[alpha,beta]'"]),
        (["resume=runs/epoch=3.ckpt"], ["""'resume="runs/epoch=3.ckpt"'"""]),
        (["resume=a'b"], ["quotes"]),
        (["data.mean[0]=1"], ["named with a dot"]),
        (["resume=${sed}"], ["resume=${sed} cannot be resolved", "'resume=${seed}'"]),
        (["seed=${nothing:1}"], ["seed=${nothing:1} cannot be resolved"]),
        (["resume=???"], ["resume has no value"]),
        (["hydra.runn.dir=x"], ["hydra.run.dir"]),
        (["experiment=wrong"], ["trainer.max_epochs", "conf/experiment/wrong.yaml"]),
        (["nothing/new=x"], ["no group nothing/new"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_a_mistake_is_named_with_something_to_type(tree: ConfigTree, words: list[str], texts: list[str]) -> None:
    text = refusal(tree, *words)
    for expected in texts:
        assert expected in text
    assert "To append to your config" not in text


def test_a_recipe_that_does_not_fit_can_be_left_out(tree: ConfigTree) -> None:
    """A recipe is chosen by data and method alone, and may write keys that the backbone at hand has not."""
    (tree.folders[0] / "recipe" / "small_alpha.yaml").write_text("# @package _global_\nmethod:\n  depth: 2\n")
    text = refusal(tree, "method=alpha")
    assert "no key method.depth" in text
    assert "(conf/recipe/small_alpha.yaml)\n    try: ~recipe" in text
    compose(tree, "method=alpha", "~recipe")


def test_all_mistakes_are_reported_at_once(tree: ConfigTree) -> None:
    text = refusal(tree, "method=bta", "trainer.max_epoch=4", "seed=", "+foo.bar=1", "method.momentum.start=0.5")
    for word in ("method=bta", "trainer.max_epoch=4", "seed=", "+foo.bar=1"):
        assert f"{word}" in text
    assert "method.momentum.start" not in text  # it exists with the method that was meant


@pytest.mark.parametrize(
    "word",
    ["+method.options.width=1", "++seed=3", "trainer.devices=auto", "resume=null", "method.lr=null",
     "data.mean.0=0.1", "~method.temperature", "method.lr=${data.global_batch_size}", "hydra.run.dir=elsewhere",
     "+hydra.job.env_set.A=b", "method={lr: 3}", "data.mean=[0.1,0.2]", "~experiment"],
)  # fmt: skip
def test_what_hydra_offers_still_works(tree: ConfigTree, word: str) -> None:
    compose(tree, word)


def test_a_number_scaled_in_yaml_follows_the_batch(tree: ConfigTree) -> None:
    assert compose(tree, "data.global_batch_size=24").method.lr == 0.5 * 24 / 256


def test_rules_run_on_the_composed_config(tree: ConfigTree) -> None:
    text = refusal(tree, "data.global_batch_size=61", "method=beta", "method.momentum.start=1.5", "~recipe")
    assert "batch-within-data: data.global_batch_size=61" in text
    assert "momentum-within-unit: method.momentum.start=1.5" in text


def test_a_sweep_is_expanded_as_hydra_expands_it(tree: ConfigTree) -> None:
    with open_composer(tree) as composer:
        jobs = composer.jobs(composer.read(["method=alpha,beta", "seed=range(2)", "logger=none"], multirun=True))
    pairs = [("alpha", 0), ("alpha", 1), ("beta", 0), ("beta", 1)]
    assert jobs == [[f"method={method}", f"seed={seed}", "logger=none"] for method, seed in pairs]


def test_of_an_interval_both_ends_are_checked(tree: ConfigTree) -> None:
    with open_composer(tree) as composer:
        assert composer.jobs(composer.read(["method.lr=interval(0.1,0.3)"], multirun=True)) == [
            ["method.lr=0.1"],
            ["method.lr=0.3"],
        ]


def test_values_swept_in_yaml_are_jobs_too(tree: ConfigTree) -> None:
    with (tree.folders[0] / "config.yaml").open("a") as file:
        file.write("  sweeper:\n    params:\n      seed: 1,2\n")
    with open_composer(tree) as composer:
        assert composer.jobs(composer.read(["method=beta"], multirun=True)) == [
            ["seed=1", "method=beta"],
            ["seed=2", "method=beta"],
        ]


def test_a_folder_of_ones_own_adds_options(tree: ConfigTree, tmp_path: Path) -> None:
    (tmp_path / "mine" / "method").mkdir(parents=True)
    (tmp_path / "mine" / "method" / "gamma.yaml").write_text("lr: 3.0\n")
    with open_composer(ConfigTree((*tree.folders, tmp_path / "mine"))) as composer:
        assert composer.compose(composer.read(["method=gamma"], multirun=False), job=0).method.lr == 3.0


def test_composing_makes_no_folder_and_leaves_hydra_as_it_was(
    tree: ConfigTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = GlobalHydra.instance().hydra
    compose(tree)
    assert GlobalHydra.instance().hydra is before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["conf"]


def test_yaml_that_cannot_be_read_is_named(tree: ConfigTree) -> None:
    (tree.folders[0] / "method" / "broken.yaml").write_text("lr: [1\n")
    assert "broken" in refusal(tree, "method=broken")
