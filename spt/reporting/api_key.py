"""Whether this machine may talk to Weights & Biases. Imports nothing heavy."""

from __future__ import annotations

import netrc
import os
from pathlib import Path
from urllib.parse import urlparse


def has_api_key() -> bool:
    """Whether wandb.init would find an API key without asking."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlparse(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    given = os.environ.get("NETRC")
    for path in [Path(given)] if given else [Path.home() / ".netrc", Path.home() / "_netrc"]:
        if path.is_file() and netrc.netrc(str(path)).authenticators(host) is not None:
            return True
    return False
