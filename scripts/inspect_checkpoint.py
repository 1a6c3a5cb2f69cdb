"""Says what a checkpoint holds: step, strategy, processes, sizes by part, and whether it is complete.

    python scripts/inspect_checkpoint.py RUN
    python scripts/inspect_checkpoint.py RUN/checkpoints/last.ckpt

Takes a run folder, a checkpoint in one file or a folder, a safetensors file, or any file of torch.save that holds plain
data. Nothing in it is run. Ends with status 1 when it is not complete.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

from spt.config.errors import ConfigError
from spt.reporting.screen import show


def main() -> None:
    """Prints what is found."""
    words = sys.argv[1:]
    if len(words) != 1 or words[0] in ("-h", "--help"):
        print((__doc__ or "").strip())
        raise SystemExit(0 if words and words[0] in ("-h", "--help") else 2)
    from spt.checkpoint.inspection import inspect  # torch, for which help does not wait

    try:
        findings = inspect(Path(words[0]))
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from None
    show("\n".join(findings.lines))
    raise SystemExit(0 if findings.is_complete else 1)


if __name__ == "__main__":
    main()
