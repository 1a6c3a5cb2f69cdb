"""Several processes that train together, for tests.

A server process imports torch, Lightning and this project once; every rank is forked from it, so that a group of ranks
starts in a fraction of a second, whatever ran in the test process before.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TypeVar, cast

import torch
import torch.distributed as dist

Result = TypeVar("Result")

PROCESS_GROUP_SECONDS = 60  # a collective that some rank does not join fails after that
_PRELOADED = ["tests.strategies.cases"]


def run_ranks(
    function: Callable[..., Result], num_ranks: int, *arguments: object, seconds: float = 240, has_workers: bool = False
) -> list[Result]:
    """What `function(*arguments)` gives on each of several ranks of one process group.

    Args:
        function: at the top level of a module, so that ranks can import it.
        num_ranks: processes; each uses one thread.
        arguments: what pickle takes.
        seconds: after that, ranks that still run are killed.
        has_workers: ranks start processes of their own.

    Raises:
        RuntimeError: a rank failed, with its traceback, or did not end.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), _free_port()
        ranks = [
            context.Process(
                target=_be_rank, args=(function, arguments, rank, num_ranks, port, folder), daemon=not has_workers
            )
            for rank in range(num_ranks)
        ]
        for process in ranks:
            process.start()
        _wait(ranks, folder, time.monotonic() + seconds)
        return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(num_ranks)]


def once(function: Callable[[int], Result]) -> Callable[[int], Result]:
    """`function`, called once for every number of ranks; a failure is remembered too, so that it costs time once."""
    outcomes: dict[int, tuple[Result | None, Exception | None]] = {}

    def remembered(num_ranks: int) -> Result:
        if num_ranks not in outcomes:
            try:
                outcomes[num_ranks] = function(num_ranks), None
            except Exception as error:
                outcomes[num_ranks] = None, error
        result, error = outcomes[num_ranks]
        if error is not None:
            raise RuntimeError(str(error))
        return cast(Result, result)

    return remembered


def _wait(ranks: list[BaseProcess], folder: Path, deadline: float) -> None:
    while any(process.is_alive() for process in ranks):
        has_failed = any(process.exitcode not in (None, 0) for process in ranks)
        if has_failed:
            time.sleep(1.0)  # the others may be failing too; their tracebacks tell more
        if has_failed or time.monotonic() > deadline:
            break
        ranks[0].join(0.05)
    for process in ranks:
        process.kill()
        process.join()
    errors = [path.read_text() for path in sorted(folder.glob("*.error"))]
    if errors or any(process.exitcode != 0 for process in ranks):
        codes = [process.exitcode for process in ranks]
        raise RuntimeError("\n".join([f"exit codes of the ranks: {codes}", *errors]))


def _be_rank(
    function: Callable[..., object], arguments: tuple[object, ...], rank: int, num_ranks: int, port: int, folder: Path
) -> None:
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(num_ranks), NODE_RANK="0", MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1",
    )  # fmt: skip
    torch.set_num_threads(1)
    torch.manual_seed(100 + rank)  # ranks must not need equal seeds
    try:
        dist.init_process_group("gloo", timeout=timedelta(seconds=PROCESS_GROUP_SECONDS))
        result = function(*arguments)
        torch.save(result, folder / f"{rank}.pt")
        dist.barrier()  # no rank leaves while another still talks to it
        dist.destroy_process_group()
    except BaseException:
        (folder / f"{rank}.error").write_text(f"rank {rank}:\n{traceback.format_exc()}")
        os._exit(1)  # without waiting for collectives that will never end


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])
