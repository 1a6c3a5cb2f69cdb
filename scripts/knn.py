"""k-NN accuracy of a trained network, as DINO's eval_knn.py.

    python scripts/knn.py source=runs/simclr-vit_micro-digits/2026-11-30_12-00-00-000000
    python scripts/knn.py source=RUN/checkpoints/step00000396.ckpt 'k=[20]' reported_k=20
    python scripts/knn.py source=RUN/export/simclr-vit_small-cifar10-step1000.safetensors data=cifar100
    python scripts/knn.py source=timm:vit_small_patch16_224.dino data=image_folder data.source.root=imagenet

    source      a run folder, a checkpoint, an exported file, or timm:<name>
    data        images; the run's own unless it is typed. Any key of its file: data.evaluation_batch_size=64
    k           neighbours that vote, several in one pass; reported_k is the one that counts
    features    embedding, or class4, mean4, class_mean4: of the last four blocks

All keys: conf/evaluation/knn.yaml, or --cfg job. The result is SOURCE/evaluation/knn.json, and a figure in the summary
of the run's wandb run. With the defaults it is the accuracy that the run's own probe measures.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

from spt.config.evaluation import begin

if __name__ == "__main__":
    begin("knn", __doc__ or "")
import hydra
from omegaconf import DictConfig

from spt.config.command_line import plain_errors


@hydra.main(version_base="1.3", config_path="../conf/evaluation", config_name="knn")
@plain_errors()
def main(cfg: DictConfig) -> None:
    """Measures, and leaves the result beside the run."""
    from spt.evaluate import knn  # imports torch, for which a refusal does not wait

    knn(cfg)


if __name__ == "__main__":
    main()
