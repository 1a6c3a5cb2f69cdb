"""Features of a data set as files: in shards, so that a killed extraction goes on where it was.

    python scripts/extract_features.py source=runs/simclr-vit_micro-digits/2026-11-30_12-00-00-000000 split=val
    python scripts/extract_features.py source=RUN features=class4 dtype=float16 shard_size=50000
    python scripts/extract_features.py source=timm:vit_small_patch16_224.dino data=image_folder format=parquet

    source      a run folder, a checkpoint, an exported file, or timm:<name>
    data        images; the run's own unless it is typed. Any key of its file: data.evaluation_batch_size=64
    split       train | val
    features    embedding, or class4, mean4, class_mean4: of the last four blocks
    format      safetensors | parquet (pip install -e '.[parquet]')

The shards are SOURCE/evaluation/features-SPLIT/00000-of-0000N.safetensors with features [M, D], labels [M] and indices
[M], the positions in the data set, in their order. All keys: conf/evaluation/extract_features.yaml, or --cfg job.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

from spt.config.evaluation import begin

if __name__ == "__main__":
    begin("extract_features", __doc__ or "")
import hydra
from omegaconf import DictConfig

from spt.config.command_line import plain_errors


@hydra.main(version_base="1.3", config_path="../conf/evaluation", config_name="extract_features")
@plain_errors()
def main(cfg: DictConfig) -> None:
    """Writes the shards beside the run."""
    from spt.evaluate import extract_features  # imports torch, for which a refusal does not wait

    extract_features(cfg)


if __name__ == "__main__":
    main()
