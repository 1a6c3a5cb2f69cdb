"""Rules about the machine, its number formats and the processes that are there."""

from __future__ import annotations

from spt.config.facts import Facts
from spt.config.rule import Rule

DEVICE_RULES: tuple[Rule, ...] = (
    Rule(
        name="compiler-present",
        broken=lambda f: f.compile_backend == "inductor" and f.has_cpp_compiler is False,
        message=lambda f: "compile.backend=inductor writes code in C++, and this machine has no compiler for it.",
        fix=lambda f: "apt-get install g++ (or set CXX), or compile=off",
        severity="error",
        example=Facts(compiles=True, compile_backend="inductor", has_cpp_compiler=False),
    ),
    Rule(
        name="accelerator-known",
        broken=lambda f: f.accelerator not in (None, "cpu", "gpu", "mps"),
        message=lambda f: f"trainer.accelerator={f.accelerator} is none that this project trains on.",
        fix=lambda f: "trainer.accelerator=auto, or cpu, gpu or mps",
        severity="error",
        example=Facts(accelerator="tpu"),
    ),
    Rule(
        name="devices-present",
        broken=lambda f: f.accelerator == "gpu" and f.devices is not None and f.gpus is not None and f.devices > f.gpus,
        message=lambda f: (
            f"trainer.devices={f.devices} asks for more GPUs than the {f.gpus} that may be used on this machine."
        ),
        fix=lambda f: f"trainer.devices={f.gpus}" if f.gpus else "trainer.accelerator=cpu",
        severity="error",
        example=Facts(accelerator="gpu", devices=8, gpus=4),
    ),
    Rule(
        name="one-device-for-single",
        broken=lambda f: f.strategy == "single" and ((f.devices or 1) > 1 or (f.num_nodes or 1) > 1),
        message=lambda f: (
            f"strategy=single is one process, and trainer.devices={f.devices} x trainer.num_nodes={f.num_nodes} "
            "asks for more."
        ),
        fix=lambda f: "trainer.devices=1 trainer.num_nodes=1, or strategy=ddp",
        severity="error",
        example=Facts(strategy="single", devices=2, num_nodes=1),
    ),
    Rule(
        name="float16-on-cuda",
        broken=lambda f: f.precision == "16-mixed" and f.accelerator is not None and f.accelerator != "gpu",
        message=lambda f: (
            f"precision={f.precision} scales losses for float16 kernels that only CUDA has; "
            f"trainer.accelerator is {f.accelerator} here."
        ),
        fix=lambda f: "precision=bf16-mixed or precision=32-true",
        severity="error",
        example=Facts(precision="16-mixed", accelerator="cpu"),
    ),
    Rule(
        name="teacher-in-float32",
        broken=lambda f: f.precision in ("bf16-true", "16-true") and f.has_teacher is True,
        message=lambda f: (
            f"precision={f.precision} keeps the teacher of method={f.method} in half precision, where an average with "
            "momentum near 1 rounds to no change at all: the teacher would stand still."
        ),
        fix=lambda f: "precision=bf16-mixed",
        severity="error",
        example=Facts(precision="bf16-true", method="dino", has_teacher=True),
    ),
    Rule(
        name="bfloat16-on-this-gpu",
        broken=lambda f: (f.precision or "").startswith("bf16") and f.gpu_has_bfloat16 is False,
        message=lambda f: (
            f"precision={f.precision} computes in bfloat16, which GPUs have from compute capability 8.0 on (A100, "
            "RTX 30); the ones here are older and would only imitate it, many times slower."
        ),
        fix=lambda f: "precision=16-mixed or precision=32-true",
        severity="error",
        example=Facts(precision="bf16-mixed", accelerator="gpu", gpu_has_bfloat16=False),
    ),
    Rule(
        name="slurm-tasks-as-asked",
        broken=lambda f: f.slurm_tasks is not None and f.world_size is not None and f.slurm_tasks != f.world_size,
        message=lambda f: (
            f"SLURM started {f.slurm_tasks} tasks (SLURM_NTASKS), and trainer.devices={f.devices} x "
            f"trainer.num_nodes={f.num_nodes} asks for {f.world_size} processes: each task is one process."
        ),
        fix=lambda f: (
            f"srun --ntasks={f.world_size} python train.py ..., or trainer.devices="
            f"{max(1, (f.slurm_tasks or 1) // max(f.num_nodes or 1, 1))}"
        ),
        severity="error",
        example=Facts(slurm_tasks=8, in_slurm_step=True, devices=4, num_nodes=1),
    ),
    Rule(
        name="srun-starts-tasks",
        broken=lambda f: (f.slurm_tasks or 1) > 1 and f.in_slurm_step is False and (f.world_size or 1) > 1,
        message=lambda f: (
            f"SLURM gave this job {f.slurm_tasks} tasks (SLURM_NTASKS), but started this process alone, outside any "
            "step: the script of a batch job, or a shell."
        ),
        fix=lambda f: f"srun --ntasks={f.slurm_tasks} python train.py ...",
        severity="error",
        example=Facts(slurm_tasks=4, in_slurm_step=False, devices=4, num_nodes=1),
    ),
    Rule(
        name="processes-as-asked",
        broken=lambda f: (
            f.started_processes is not None and f.world_size is not None and f.started_processes != f.world_size
        ),
        message=lambda f: (
            f"torchrun started {f.started_processes} processes (WORLD_SIZE), and trainer.devices={f.devices} x "
            f"trainer.num_nodes={f.num_nodes} asks for {f.world_size}."
        ),
        fix=lambda f: (
            f"trainer.devices={max(1, (f.started_processes or 1) // max(f.num_nodes or 1, 1))}, or python train.py "
            "without torchrun, which starts as many processes as are asked for"
        ),
        severity="error",
        example=Facts(started_processes=8, devices=1, num_nodes=1),
    ),
    Rule(
        name="nodes-need-a-launcher",
        broken=lambda f: (f.num_nodes or 1) > 1 and f.started_processes is None and f.slurm_tasks is None,
        message=lambda f: (
            f"trainer.num_nodes={f.num_nodes}: python train.py starts the processes of one machine, and nothing has "
            "started those of the others."
        ),
        fix=lambda f: (
            f"torchrun --nnodes={f.num_nodes} --nproc-per-node={f.devices} ... train.py, or trainer.num_nodes=1"
        ),
        severity="error",
        example=Facts(num_nodes=2, devices=8),
    ),
)
