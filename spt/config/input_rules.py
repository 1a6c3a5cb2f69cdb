"""Rules about where images are read and their views are made."""

from __future__ import annotations

from spt.config.facts import Facts
from spt.config.inputs import Inputs
from spt.config.rule import Rule


def _are_read_by_workers(facts: Facts) -> bool:
    return (facts.inputs.num_workers or 0) > 0


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
    Rule(
        name="images-on-the-device-are-held-in-memory",
        broken=lambda f: f.inputs.images_on == "device" and f.inputs.in_memory is False,
        message=lambda f: (
            f"data.images_on={f.inputs.images_on} keeps a data set's images in the memory of the device, and "
            f"data={f.data} reads or makes them batch by batch."
        ),
        fix=lambda f: "data.images_on=host",
        severity="error",
        example=Facts(data="image_folder", inputs=Inputs(images_on="device", in_memory=False)),
    ),
    Rule(
        name="images-on-the-device-without-workers",
        broken=lambda f: f.inputs.images_on == "device" and (_are_read_by_workers(f) or f.inputs.made_on == "worker"),
        message=lambda f: (
            f"data.images_on={f.inputs.images_on} keeps images where workers cannot read them, and "
            f"data.num_workers={f.inputs.num_workers} with views.made_on={f.inputs.made_on} leaves them to workers."
        ),
        fix=lambda f: "data.images_on=host, or data.num_workers=0 views.made_on=device",
        severity="error",
        example=Facts(inputs=Inputs(images_on="device", num_workers=4, made_on="device")),
    ),
    Rule(
        name="images-in-memory-need-no-workers",
        broken=lambda f: (
            f.inputs.in_memory is True
            and _are_read_by_workers(f)
            and f.inputs.made_on == "device"
            and f.inputs.images_on != "device"
        ),
        message=lambda f: (
            f"data.num_workers={f.inputs.num_workers}: data={f.data} is held in memory, and views are made a batch at "
            "a time on the device; workers would only hand on copies."
        ),
        fix=lambda f: "data.num_workers=0",
        severity="warning",
        example=Facts(data="cifar10", inputs=Inputs(in_memory=True, num_workers=4, made_on="device")),
    ),
)
