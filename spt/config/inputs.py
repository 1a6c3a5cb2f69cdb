"""Facts about where images are read and their views are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from spt.config.readings import children, class_facts, flag, number, text, whole
from spt.config.tree import Plain

_VIEW = "spt.views.view.View"


class Inputs(NamedTuple):
    """Plain values; None stands for what is not known.

    Attributes:
        made_on: where views are made: device | worker.
        own_views: keys of views that are no recipes of this project, but transforms of single images.
        num_workers: processes per device that read images.
        reduced_decoding: decoded pixels a pixel of a view that JPEGs decoded smaller must keep.
        images_on: auto | device | host.
        in_memory: the data set's images are all held in memory.
    """

    made_on: str | None = None
    own_views: tuple[str, ...] = ()
    num_workers: int | None = None
    reduced_decoding: float | None = None
    images_on: str | None = None
    in_memory: bool | None = None


UNKNOWN = Inputs()


def read_inputs(values: Mapping[str, Plain]) -> Inputs:
    """Of a config, flat by dotted key."""
    views = [f"views.global_views.{name}" for name in sorted(children(values, "views.global_views"))]
    targets = {view: text(values, f"{view}._target_") for view in [*views, "views.local_view"]}
    return Inputs(
        made_on=text(values, "views.made_on"),
        own_views=tuple(view for view, target in targets.items() if target not in (None, _VIEW)),
        num_workers=whole(values, "data.num_workers"),
        reduced_decoding=number(values.get("data.source.reduced_decoding")),
        images_on=text(values, "data.images_on"),
        in_memory=flag(class_facts(values, "data.source"), "in_memory"),
    )
