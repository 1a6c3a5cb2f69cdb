"""Trains one experiment, composed from conf/. `python train.py --help` shows how."""

from spt.config.command_line import plain_errors
from spt.launch.start import begin, train

if __name__ == "__main__":
    begin()  # before Hydra is imported: help comes at once, and a refusal leaves no run folder
import hydra
from omegaconf import DictConfig


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(cfg: DictConfig) -> float | None:
    with plain_errors():
        return train(cfg)  # imports torch, which nothing before this line needed


if __name__ == "__main__":
    main()
