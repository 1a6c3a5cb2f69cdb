"""Rules about where images are read and their views are made."""

from __future__ import annotations

from spt.config.facts import Facts
from spt.config.inputs import Inputs
from spt.config.rule import Rule

INPUT_RULES: tuple[Rule, ...] = (
    Rule(
        name="own-views-in-workers",
        broken=lambda f: f.inputs.made_on == "device" and bool(f.inputs.own_views),
        message=lambda f: (
            f"{', '.join(f.inputs.own_views)} transforms single images, and views.made_on={f.inputs.made_on} makes "
            "views a batch at a time."
        ),
        fix=lambda f: "views.made_on=worker",
        severity="error",
        example=Facts(inputs=Inputs(made_on="device", own_views=("views.global_views.first",))),
    ),
    Rule(
        name="reduced-decoding-for-the-devices-views",
        broken=lambda f: f.inputs.made_on == "worker" and f.inputs.reduced_decoding is not None,
        message=lambda f: (
            f"data.source.reduced_decoding={f.inputs.reduced_decoding:g} needs to know the crops before an image is "
            f"decoded, and with views.made_on={f.inputs.made_on} torchvision draws them afterwards."
        ),
        fix=lambda f: "data.source.reduced_decoding=null, or views.made_on=device",
        severity="error",
        example=Facts(inputs=Inputs(made_on="worker", reduced_decoding=2.0)),
    ),
    Rule(
        name="views-in-workers-have-workers",
        broken=lambda f: f.inputs.made_on == "worker" and f.inputs.num_workers == 0,
        message=lambda f: (
            f"views.made_on={f.inputs.made_on} makes views image by image, and with data.num_workers=0 the training "
            "process does so between two steps."
        ),
        fix=lambda f: "data.num_workers=8",
        severity="warning",
        example=Facts(inputs=Inputs(made_on="worker", num_workers=0)),
    ),
)
