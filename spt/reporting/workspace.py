"""A dashboard as workspaces of wandb, by its package wandb-workspaces."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from spt.config.errors import ConfigError
from spt.reporting.dashboard import Panel, View
from spt.reporting.wandb import STEP

if TYPE_CHECKING:
    from wandb_workspaces.reports.v2.interface import PanelTypes
    from wandb_workspaces.workspaces import Section, Workspace

_SHOWN_RUNS = 50  # lines in a panel


def push(views: Sequence[View], *, project: str, entity: str) -> list[str]:
    """Saves the views as workspaces of a project, and gives their addresses. Needs an API key and the network.

    Raises:
        ConfigError: the package wandb-workspaces is not installed.
    """
    return [str(workspace.save().url) for workspace in workspaces(views, project=project, entity=entity)]


def workspaces(views: Sequence[View], *, project: str, entity: str) -> list[Workspace]:
    """The views as wandb has them, not yet sent. Needs no key.

    Raises:
        ConfigError: the package wandb-workspaces is not installed.
    """
    if find_spec("wandb_workspaces") is None:
        raise ConfigError(
            "A dashboard is sent by the package wandb-workspaces, which is not installed; run "
            '`pip install -e ".[dashboards]"`, or use --output FILE, which only writes it.'
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # between that package and pydantic
        import wandb_workspaces.workspaces as ws
    return [
        ws.Workspace(
            entity=entity,
            project=project,
            name=view.name,
            sections=[_section(name, panels) for name, panels in view.sections.items()],
            settings=ws.WorkspaceSettings(x_axis=STEP, max_runs=_SHOWN_RUNS),
            runset_settings=ws.RunsetSettings(groupby=[ws.Config(key) for key in view.group_by]),
        )
        for view in views
    ]


def _section(name: str, panels: Sequence[Panel]) -> Section:
    import wandb_workspaces.reports.v2 as wr
    import wandb_workspaces.workspaces as ws

    built: list[PanelTypes] = []
    for panel in panels:
        if panel.columns:
            keys = [wr.ParallelCoordinatesPlotColumn(wr.Config(key)) for key in panel.columns]
            values = [wr.ParallelCoordinatesPlotColumn(wr.SummaryMetric(metric)) for metric in panel.metrics]
            built.append(wr.ParallelCoordinatesPlot(title=panel.title, columns=[*keys, *values]))
        elif panel.pictures:
            built.append(wr.MediaBrowser(title=panel.title, media_keys=list(panel.pictures)))
        else:
            built.append(wr.LinePlot(title=panel.title, x=STEP, y=list(panel.metrics)))
    return ws.Section(name=name, panels=built, is_open=True)
