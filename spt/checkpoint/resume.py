"""Which checkpoint a run goes on from. Imports no torch."""

from __future__ import annotations

from pathlib import Path

from spt.checkpoint.folder import LAST, SUFFIX, is_complete, newest
from spt.config.errors import CheckpointError

AUTO = "auto"
CHECKPOINTS = "checkpoints"
"""In a run folder: the folder of its checkpoints."""


def checkpoint_to_resume(resume: str | None, run_folder: Path) -> Path | None:
    """The complete checkpoint to go on from, or None for a fresh start.

    Args:
        resume: None; "auto": the newest checkpoint of `run_folder`, if there is one; a run folder: its newest; or a
            checkpoint.
        run_folder: of the run that is about to start.

    Raises:
        CheckpointError: there is no such checkpoint, or it is not complete.
    """
    if resume is None:
        return None
    if resume == AUTO:
        return newest(run_folder / CHECKPOINTS)
    path = Path(resume).expanduser()
    if is_run_folder(path):
        found = newest(path / CHECKPOINTS)
        if found is None:
            raise CheckpointError(
                f"resume={resume} has no complete checkpoint: the run ended before it wrote one.\n"
                f"    try: resume=auto hydra.run.dir={resume}, which starts it again"
            )
        return found
    if not path.exists():
        raise CheckpointError(
            f"resume={resume} does not exist.\n    try: resume=RUN_FOLDER or RUN_FOLDER/{CHECKPOINTS}/{LAST}"
        )
    if not is_complete(path):
        raise CheckpointError(
            f"resume={resume} is no complete checkpoint: it was left by a run that was killed while it saved, or is "
            f"another folder.\n    try: resume=RUN_FOLDER, whose newest complete {SUFFIX} is taken"
        )
    return path.resolve()


def is_run_folder(path: Path) -> bool:
    """Whether a path is the folder of a run, rather than a checkpoint."""
    return (path / ".hydra").is_dir() or (path / CHECKPOINTS).is_dir() or (path / "config_resolved.yaml").is_file()
