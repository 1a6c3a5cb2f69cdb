"""Accuracy of a linear classifier on a trained network, by the protocols of the papers.

    python scripts/linear_probe.py source=runs/simclr-vit_micro-digits/2026-11-30_12-00-00-000000
    python scripts/linear_probe.py source=RUN protocol=dino
    python scripts/linear_probe.py source=RUN 'protocol.features=[class1,class4]' 'protocol.base_lrs=[0.01,0.1,1]'
    python scripts/linear_probe.py source=timm:vit_base_patch16_224.dino data=image_folder protocol=dino \\
        'protocol.features=[class_mean1]'

    source      a run folder, a checkpoint, an exported file, or timm:<name>
    protocol    grid (seconds; features computed once) | dino | dinov2 | simclr | byol | ijepa | mae
    data        images; the run's own unless it is typed. Any key of its file: data.evaluation_batch_size=64
    held_out    share of the training images that choose, where there is more than one learning rate or choice of layers

All learning rates and layers train in one pass; what is chosen is trained once more on all training images, and the
validation images are looked at once. All keys: conf/evaluation/linear_probe.yaml, or --cfg job. The result is
SOURCE/evaluation/linear_probe-PROTOCOL.json, and a figure in the summary of the run's
wandb run.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

from spt.config.evaluation import begin

if __name__ == "__main__":
    begin("linear_probe", __doc__ or "")
import hydra
from omegaconf import DictConfig

from spt.config.command_line import plain_errors


@hydra.main(version_base="1.3", config_path="../conf/evaluation", config_name="linear_probe")
@plain_errors()
def main(cfg: DictConfig) -> None:
    """Measures, and leaves the result beside the run."""
    from spt.evaluate import linear_probe  # imports torch, for which a refusal does not wait

    linear_probe(cfg)


if __name__ == "__main__":
    main()
