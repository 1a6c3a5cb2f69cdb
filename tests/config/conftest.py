"""A small tree of YAML files with every kind of group that the command line knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from spt.config.tree import ConfigTree

FILES = {
    "config.yaml": """
defaults:
  - trainer: default
  - data: small
  - masks: null
  - logger: csv
  - method: alpha
  - optional recipe: ${data}_${method}
  - experiment: null
  - _self_
seed: 0
resume: null
hydra:
  run:
    dir: runs/${hydra:runtime.choices.method}/${now:%f}
""",
    "trainer/default.yaml": "devices: 1\nnum_nodes: 1\naccumulate_grad_batches: 1\nmax_epochs: 3\nmax_steps: -1\n",
    "data/small.yaml": "num_images: 60\nglobal_batch_size: 12\nmean: [0.5, 0.4]\n",
    "data/large.yaml": "num_images: 600\nglobal_batch_size: 120\nmean: [0.5, 0.4]\n",
    "masks/blocks.yaml": "min_keep: 2\n",
    "logger/csv.yaml": "{}\n",
    "logger/none.yaml": "{}\n",
    "method/alpha.yaml": "lr: ${linear_lr:0.5,${data.global_batch_size}}\ntemperature: 0.1\noptions: {}\n",
    "method/beta.yaml": """
defaults:
  - _self_
  - override /masks@_global_.masks: blocks
lr: 0.2
momentum:
  start: 0.99
options: {}
""",
    "recipe/small_beta.yaml": "# @package _global_\nmethod:\n  lr: 0.7\n",
    "experiment/long.yaml": "# @package _global_\ndefaults:\n  - override /method: beta\ntrainer:\n  max_epochs: 9\n",
    "experiment/wrong.yaml": "# @package _global_\ntrainer:\n  max_epoch: 9\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> ConfigTree:
    """The files above, on disk."""
    for name, text in FILES.items():
        file = tmp_path / "conf" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.lstrip())
    return ConfigTree((tmp_path / "conf",))
