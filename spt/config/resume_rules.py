"""What cannot go on from where it says: rows of the table of rules."""

from __future__ import annotations

from spt.config.facts import Facts
from spt.config.resumed import Change
from spt.config.rule import Rule

# what a checkpoint holds the state of, or counts its position in
_KEPT = ("seed", "method._target_", "optimizer.rule")
_KEPT_GROUPS = ("backbone.", "data.")
_FREE = (
    "backbone.drop_path", "backbone.memory_format", "backbone.init_from", "backbone.freeze_steps",
    "data.num_workers", "data.pin_memory", "data.evaluation_batch_size", "data.bank_size", "data.evaluation_crop",
    "data.source.root", "data.source.folder",
    "data.images_on", "data.source.index", "data.source.reduced_decoding",
)  # fmt: skip


def may_not_change(change: Change) -> bool:
    """Whether a run that goes on must keep this key."""
    if change.key in _KEPT:
        return True
    if change.is_new and change.key.count(".") == 1:
        return False  # a key of a class, not of the arguments that a user adds: this project had no such key then
    return change.key.startswith(_KEPT_GROUPS) and change.key not in _FREE


def _kept(facts: Facts) -> list[Change]:
    kept = [change for change in facts.resume_changes if may_not_change(change)]
    follows_seed = any(change.key == "seed" for change in kept)
    return [change for change in kept if not (follows_seed and change.key == "data.seed")]


RESUME_RULES: tuple[Rule, ...] = (
    Rule(
        name="checkpoint-present",
        broken=lambda f: f.missing_checkpoint is not None,
        message=lambda f: f"resume={f.missing_checkpoint} does not exist, or holds no checkpoint to go on from.",
        fix=lambda f: "resume=RUN_FOLDER, or leave it out for a fresh run",
        severity="error",
        example=Facts(missing_checkpoint="runs/last.ckpt"),
    ),
    Rule(
        name="checkpoint-complete",
        broken=lambda f: f.incomplete_checkpoint is not None,
        message=lambda f: (
            f"resume={f.incomplete_checkpoint} is not complete: its run was killed while it saved, or it is no "
            "checkpoint."
        ),
        fix=lambda f: "resume=RUN_FOLDER, whose newest complete one is taken",
        severity="error",
        example=Facts(incomplete_checkpoint="runs/digits/checkpoints/step00000012.ckpt"),
    ),
    Rule(
        name="resume-keeps-the-experiment",
        broken=lambda f: bool(_kept(f)),
        message=lambda f: (
            "the checkpoint was written with "
            + ", ".join(f"{change.key}={change.before}, not {change.now}" for change in _kept(f))
            + ": its weights, optimizer state or place in the data mean nothing under another value."
        ),
        fix=lambda f: (
            " ".join(f"{change.key}={change.before}" for change in _kept(f) if change.before is not None)
            or "the options with which that run was started"
        ),
        severity="error",
        example=Facts(resume_changes=(Change("seed", 0, 1),)),
    ),
    Rule(
        name="resume-has-steps-left",
        broken=lambda f: f.resume_step is not None and f.total_steps is not None and f.resume_step > f.total_steps,
        message=lambda f: (
            f"the checkpoint is of {f.resume_step} optimizer steps, and the run ends after {f.total_steps}."
        ),
        fix=lambda f: (
            f"trainer.max_epochs={-(-(f.resume_step or 0) // max(f.steps_per_epoch or 1, 1)) + 1}, or more; "
            "or an earlier checkpoint"
        ),
        severity="error",
        example=Facts(resume_step=900, max_epochs=6, num_images=12800, global_batch_size=128),
    ),
    Rule(
        name="resume-auto-in-a-lasting-folder",
        broken=lambda f: f.resumes_automatically is True and f.run_folder_is_new is True,
        message=lambda f: (
            "resume=auto goes on in the run folder of last time, and this command line names a new folder after the "
            "time at every start, so it would start afresh for ever."
        ),
        fix=lambda f: "hydra.run.dir=runs/NAME (hydra.sweep.dir=runs/NAME with -m)",
        severity="error",
        example=Facts(resumes_automatically=True, run_folder_is_new=True),
    ),
    Rule(
        name="resume-from-the-newest",
        broken=lambda f: f.later_checkpoint is not None,
        message=lambda f: (
            f"the run folder has a later checkpoint, {f.later_checkpoint}, which belongs to another continuation."
        ),
        fix=lambda f: "another hydra.run.dir; or resume=auto, which takes the newest; or delete the later ones",
        severity="error",
        example=Facts(later_checkpoint="runs/digits/checkpoints/step00000024.ckpt"),
    ),
    Rule(
        name="deepspeed-checkpoints-stay-deepspeed",
        broken=lambda f: (
            f.resumed_checkpoint is not None
            and f.strategy_kind is not None
            and (f.resume_world_size is not None) != (f.strategy_kind == "deepspeed")
        ),
        message=lambda f: (
            f"the checkpoint was written {'under' if f.resume_world_size else 'without'} DeepSpeed, whose folders "
            f"nothing else goes on from, and strategy={f.strategy}."
        ),
        fix=lambda f: (
            "strategy=deepspeed_stage_3, or backbone.init_from=<exported weights>"
            if f.resume_world_size
            else "strategy=fsdp2"
        ),
        severity="error",
        example=Facts(
            resumed_checkpoint="runs/a/checkpoints/step00000012.ckpt", resume_world_size=4, strategy="ddp",
            strategy_kind="ddp",
        ),
    ),
)  # fmt: skip
