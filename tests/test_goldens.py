"""Ten losses of every method, so that no change of numbers goes unseen."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from spt.run import Run
from spt.views.draws import uniform
from tests.runs import Losses, build, fit

# learning rates at which losses change in every step, and by which a rounding error does not grow
WORDS = {
    "byol": ("optimizer.lr=0.05",),
    "dino": ("optimizer.lr=0.005",),
    "ijepa": ("optimizer.lr=0.02",),
    "simclr": ("optimizer.lr=0.01", "method.temperature=0.5"),
}
LOSSES = {
    "byol": [4.34866, 4.534515, 4.615222, 4.38857, 4.5644, 3.819199, 4.015616, 3.742916, 3.768631, 3.917438],
    "dino": [2.281148, 1.447263, 1.293629, 1.748075, 1.09987, 1.392734, 1.577206, 1.31758, 1.572125, 1.5162],
    "ijepa": [0.445917, 0.391284, 0.348552, 0.356026, 0.332568, 0.339527, 0.325589, 0.3357, 0.324986, 0.330827],
    "simclr": [6.179952, 6.721524, 5.823328, 6.623638, 4.760201, 5.597692, 6.468897, 6.805882, 6.700449, 5.53869],
}


def write_weights(run: Run) -> None:
    """Sets all weights to numbers that depend on no random generator of torch; the teacher to the student's."""
    networks = run.module.method.networks
    with torch.no_grad():
        trained = [p for p in run.module.method.parameters() if p.requires_grad and p.ndim > 1]
        for place, parameter in enumerate(trained):
            index = torch.tensor([place])
            draws = uniform(0, 1000, torch.zeros_like(index), index, parameter.numel())
            parameter.copy_((draws.reshape(parameter.shape) - 0.5) * 0.4)
    if networks.has_teacher:
        networks.teacher.load_state_dict(networks.student.state_dict())


@pytest.mark.parametrize("method", LOSSES)
def test_ten_losses_are_what_they_were(tmp_path: Path, method: str) -> None:
    """In float64, where the order of a sum on another processor or in another torch does not show.

    Where numbers are meant to change, run this test, read the new ones in its message, and say why in the commit.
    """
    words = ("data.num_images=80", "trainer.max_epochs=1", "backbone.drop_path=0", "probes=none")
    run = build(method, tmp_path, *words, *WORDS[method])
    write_weights(run)
    run.module.double()
    losses = Losses()
    fit(run, losses)
    assert losses.values == pytest.approx(LOSSES[method], rel=1e-3)
