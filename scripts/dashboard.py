"""Builds the wandb dashboard of a project from spt/reporting/dashboard.yaml: a workspace for runs, one for sweeps.

python scripts/dashboard.py --project spt-ssl --entity TEAM      sends it; without an API key writes dashboard.json
python scripts/dashboard.py --swept method.temperature           the sweep's view has an axis for that key, too
python scripts/dashboard.py --output dashboard.json              writes it, with a key too
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run from a clone that is not installed

from spt.config.errors import ConfigError
from spt.reporting.api_key import has_api_key
from spt.reporting.dashboard import SPEC, read_dashboard, write_dashboard


def arguments() -> Namespace:
    """What was typed."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--project", default="spt-ssl", help="of wandb, as logger.wandb.project has it")
    parser.add_argument("--entity", help="user or team; needed to send it")
    parser.add_argument("--spec", type=Path, default=SPEC, help="another file than spt/reporting/dashboard.yaml")
    parser.add_argument("--swept", nargs="*", default=[], metavar="KEY", help="keys of the config that a sweep changes")
    parser.add_argument("--output", type=Path, help="write it there as JSON, and send nothing")
    return parser.parse_args()


def main(args: Namespace) -> None:
    """Sends the dashboard, or writes it."""
    views = read_dashboard(args.spec, swept=args.swept)
    if args.output is None:
        if has_api_key():
            send(args)
            return
        print("No API key of wandb was found, so nothing is sent; run `wandb login`, then this again.")
    file = args.output or Path("dashboard.json")
    write_dashboard(views, file, project=args.project, entity=args.entity)
    print(f"{file}  {sum(len(view.panels) for view in views)} panels in {len(views)} views")


def send(args: Namespace) -> None:
    """Saves the workspaces and prints their addresses."""
    from spt.reporting.workspace import push  # imports Lightning, for which writing does not wait

    if args.entity is None:
        raise ConfigError("--entity is not given, and a workspace belongs to a user or team; use --entity NAME.")
    for address in push(read_dashboard(args.spec, swept=args.swept), project=args.project, entity=args.entity):
        print(address)


if __name__ == "__main__":
    try:
        main(arguments())
    except ConfigError as error:
        sys.exit(str(error))
