from __future__ import annotations

from spt.reporting.start import last_line, start_block


def block() -> str:
    return start_block(
        method="simclr",
        backbone="vit_micro",
        num_parameters=812_345,
        data="digits",
        num_images=1437,
        strategy="ddp",
        precision="32-true",
        accelerator="cpu",
        world_size=2,
        batch_size_per_device=16,
        accumulate_grad_batches=4,
        lr=0.00123456,
        total_steps=220,
        steps_per_epoch=11,
        folder="runs/one",
    )


def test_the_block_names_everything_that_was_resolved() -> None:
    text = block()
    for part in ("812k parameters", "1,437 images", "128 images a step = 16 a device x 2 x 4 accumulated", "0.001235"):
        assert part in text
    assert "220 = 20 epochs x 11" in text
    assert "runs/one" in text


def test_the_block_is_aligned() -> None:
    lines = block().splitlines()
    assert len({len(line) - len(line.split(None, 1)[1]) for line in lines}) == 1


def test_the_last_line_says_how_good_the_embedding_became() -> None:
    line = last_line(folder="runs/one", at_start={"val/knn_top1": 0.6411}, metrics={"val/knn_top1": 0.9428})
    assert line == "runs/one  val/knn_top1 0.641 -> 0.943"


def test_the_last_line_of_a_run_without_probes_is_its_folder() -> None:
    assert last_line(folder="runs/one", at_start={}, metrics={"train/loss": 1.0}) == "runs/one"
