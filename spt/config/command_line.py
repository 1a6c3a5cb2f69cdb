"""What happens between typing a command and the first line of Hydra: help, and everything that is wrong at once."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from spt.config.errors import ConfigError, JobError, RankError
from spt.config.help import help_text

logger = logging.getLogger(__name__)


def check_command_line(arguments: Sequence[str] | None = None) -> bool:
    """Ends the process for --help (status 0) and for what cannot work (status 2, all reasons shown).

    Args:
        arguments: what follows the script's name; this process's own when not given.

    Returns:
        Whether a run follows; not when something is only shown, as by --cfg.
    """
    # Hydra shortens tracebacks, and loses the cause of an error, unless it is told not to
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    is_own = arguments is None
    arguments = sys.argv[1:] if arguments is None else arguments
    if "--help" in arguments or "-h" in arguments:
        sys.stdout.write(help_text())
        raise SystemExit(0)
    from spt.config.dry_run import check_arguments  # imports Hydra, for which --help does not wait
    from spt.config.resumed import expanded

    try:
        arguments = expanded(arguments)
        if is_own:
            sys.argv[1:] = arguments  # for Hydra
        answer = check_arguments(arguments)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from None
    sys.stderr.write(answer.notice)
    return answer.a_run_follows


@contextmanager
def plain_errors() -> Iterator[None]:
    """Around a run: a ConfigError ends it with its text and status 2, any other error with its traceback and status 1.

    A RankError's text is the traceback of the process that failed.
    """
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    try:
        yield
    except Exception as error:
        is_mistake = isinstance(error, ConfigError)
        # tracebacks go through the log too: Python alone would show them on the screen and leave train.log without
        logger.error("%s", error, exc_info=None if is_mistake or isinstance(error, (RankError, JobError)) else error)
        if HydraConfig.get().mode == RunMode.MULTIRUN:
            raise  # the sweep goes on to its other runs, and reports this one at its end
        raise SystemExit(2 if is_mistake else 1) from None
