"""Fine-tunes the whole network on labels: layer-wise learning rates, drop-path, label smoothing.

    python scripts/finetune.py source=runs/simclr-vit_micro-digits/2026-11-30_12-00-00-000000 trainer.max_epochs=20
    python scripts/finetune.py source=RUN data=cifar10 trainer.devices=8 strategy=ddp precision=bf16-mixed
    python scripts/finetune.py source=timm:vit_base_patch16_224.mae data=image_folder data.global_batch_size=1024

    source      a run folder, a checkpoint, an exported file, or timm:<name>
    data        images; the run's own unless it is typed. data.global_batch_size is that of the fine-tuning
    recipe      recipe.base_lr, recipe.layer_decay, recipe.drop_path, recipe.label_smoothing ...
    trainer     trainer.max_epochs, trainer.devices ...; strategy single | ddp; precision as in train.py

All keys: conf/evaluation/finetune.yaml, or --cfg job. The result is the accuracy after the last pass, never the best
one: SOURCE/evaluation/finetune.json, its curve in SOURCE/evaluation/finetune/metrics.csv, and a figure in the summary
of the run's wandb run.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

from spt.config.evaluation import begin

if __name__ == "__main__":
    begin("finetune", __doc__ or "")
import hydra
from omegaconf import DictConfig

from spt.config.command_line import plain_errors
from spt.launch.start import spread
from spt.launch.task import FINETUNING


@hydra.main(version_base="1.3", config_path="../conf/evaluation", config_name="finetune")
@plain_errors()
def main(cfg: DictConfig) -> None:
    """Trains, measures, and leaves the result beside the run."""
    spread(cfg, FINETUNING)


if __name__ == "__main__":
    main()
