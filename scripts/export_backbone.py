"""Takes the evaluated network out of a run, without prefixes, for use without this project.

    python scripts/export_backbone.py run=runs/dino-vit_small-imagenet/2026-11-30_12-00-00-000000
    python scripts/export_backbone.py run=RUN format=timm output=my_vit
    python scripts/export_backbone.py run=RUN/checkpoints/step00001000.ckpt format=torch_export

    run         a run folder, or a checkpoint, in one file or a folder
    checkpoint  of a run folder: last, best or the name of one     [last]
    format      safetensors | timm | torchscript | torch_export    [safetensors]
    output      the file, for timm the folder                      [in RUN/export]
    verify      true: compare embeddings with plain timm's; false: hold one tensor at a time [false]
    trust       further packages that the run's config may name, [a,b]

A card beside the file says what the network is, how good it is, and how to load it.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

from spt.config.errors import ConfigError
from spt.config.words import flag, read_words

DEFAULTS = {
    "run": None, "checkpoint": "last", "format": "safetensors", "output": None, "verify": "false", "trust": None,
}  # fmt: skip


def main() -> None:
    """Exports, or says what is wrong with the words."""
    if not sys.argv[1:] or {"-h", "--help"} & set(sys.argv[1:]):
        print((__doc__ or "").strip())
        raise SystemExit(0 if sys.argv[1:] else 2)
    try:
        _export(read_words(sys.argv[1:], DEFAULTS))
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from None


def _export(words: dict[str, str | None]) -> None:
    run, checkpoint, format = words["run"], words["checkpoint"], words["format"]
    if run is None or checkpoint is None or format is None:
        raise ConfigError("Of which run? Type run=<the folder that it left>, or run=<a checkpoint>.")
    verify = flag("verify", words["verify"])

    from spt.export.evaluated import Evaluated  # torch, after what can be refused without it
    from spt.export.export import export_backbone

    packages = [name for name in (words["trust"] or "").strip("[]").split(",") if name]
    evaluated = Evaluated(Path(run), checkpoint=checkpoint, packages=packages)
    output = None if words["output"] is None else Path(words["output"])
    written = export_backbone(evaluated, format=format, output=output, verify=verify)
    numbers = sum(tensor.shape.numel() for tensor in evaluated.tensors.values())
    origin = evaluated.origin
    print(f"{evaluated.network} of {evaluated.path}: step {origin.step} of {origin.total_steps}, {numbers:,} weights")
    if verify:
        print("plain timm gives the embeddings of this project")
    for path in written:
        print(path)


if __name__ == "__main__":
    main()
