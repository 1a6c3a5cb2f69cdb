"""Imports go one way, files and functions stay small: read from the source, not from running it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(path for package in ("spt", "methods") for path in (ROOT / package).rglob("*.py"))
FILES = [*SOURCES, *sorted((ROOT / "scripts").glob("*.py")), *sorted((ROOT / "tests").rglob("*.py")), ROOT / "train.py"]

MACHINERY = ("lightning", "hydra", "omegaconf", "wandb")
METHODS_MAY_USE = (
    "spt.method", "spt.teacher_student", "spt.heads", "spt.losses", "spt.schedules", "spt.types",
    "spt.backbones.backbone",  # the protocols
)  # fmt: skip
# what the modules of a part of spt may import besides their own part, the standard library and other packages
LEAVES = ("spt.types", "spt.schedules", "spt.config.errors", "spt.distributed")
SPT_MAY_USE = {
    "spt.config.build": ("spt",),
    "spt.config": ("spt.checkpoint.folder", "spt.checkpoint.resume"),  # names of files, without torch
    "spt.types": (),
    "spt.schedules": ("spt.types",),
    "spt.distributed": ("spt.config.errors",),
    "spt.teacher_student": (*LEAVES, "spt.backbones.backbone"),  # the protocols
    "spt.method": (*LEAVES, "spt.teacher_student"),
    "spt.backbones": LEAVES,
    "spt.heads": (*LEAVES, "spt.backbones"),
    "spt.losses": LEAVES,
    "spt.optim": LEAVES,
    "spt.views": LEAVES,
    "spt.data": (*LEAVES, "spt.views"),
    "spt.evaluation": LEAVES,
    # what a network is given and makes of it; when it is drawn, and who is shown it, is the business of callbacks
    "spt.pictures": (
        *LEAVES,
        "spt.backbones",
        "spt.method",
        "spt.module",
        "spt.data",
        "spt.evaluation",
        "spt.probes.probe",
    ),
    # sources of methods are read, not imported, for what they evaluate
    "spt.checkpoint": (*LEAVES, "spt.reporting.atomic", "spt.reporting.record", "spt.config.targets"),
    # the network of a run is built again, after spt.config.trust has seen its config
    "spt.export": (*LEAVES, "spt.backbones", "spt.checkpoint", "spt.config", "spt.reporting.atomic"),
    "spt.pretrained": (*LEAVES, "spt.backbones", "spt.checkpoint"),
    # no torch: a report is there at once
    "spt.report": (
        "spt.config.errors",
        "spt.config.tree",
        "spt.reporting.atomic",
        "spt.reporting.metric_rows",
        "spt.sweep.plan",
        "spt.sweep.record",
        "spt.sweep.table",
    ),
    # networks of runs, files and timm on a data set, as protocols; what reads a config is spt.evaluate
    "spt.offline": (
        *LEAVES,
        "spt.backbones",
        "spt.checkpoint",
        "spt.config",
        "spt.data",
        "spt.evaluation",
        "spt.export",
        "spt.reporting",
        "spt.views",
    ),
    "spt.strategies": (*LEAVES, "spt.method", "spt.teacher_student", "spt.checkpoint"),
}
# nothing else in spt knows hydra or omegaconf; sweepers and launchers are Hydra's own interfaces
CONFIG_USERS = ("spt.run", "spt.evaluate", "spt.config", "spt.sweep")
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}


def module_name(path: Path) -> str:
    """Dotted name of a file, packages named by themselves."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[str]:
    """Dotted names that a file imports anywhere, those under TYPE_CHECKING left out."""
    tree = ast.parse(path.read_text())
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.relative_to(ROOT)}: imports are absolute"
            for alias in node.names:
                inner = ROOT.joinpath(*(node.module or "").split("."), f"{alias.name}.py")
                is_module = inner.is_file() or inner.with_suffix("").is_dir()
                yield f"{node.module}.{alias.name}" if is_module else node.module or ""


def is_within(name: str, parts: tuple[str, ...]) -> bool:
    """Whether a dotted name is one of the parts or lies inside one."""
    return any(name == part or name.startswith(f"{part}.") for part in parts)


def label(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", [path for path in SOURCES if module_name(path).startswith("methods")], ids=label)
def test_a_method_imports_science_only(path: Path) -> None:
    for name in imports(path):
        assert not is_within(name, MACHINERY), name
        if name.split(".")[0] == "spt":
            assert is_within(name, METHODS_MAY_USE), name


@pytest.mark.parametrize("path", [path for path in SOURCES if module_name(path).startswith("spt")], ids=label)
def test_spt_imports_no_method_and_follows_the_table(path: Path) -> None:
    module = module_name(path)
    part = next((key for key in SPT_MAY_USE if is_within(module, (key,))), None)
    for name in imports(path):
        assert not is_within(name, ("methods", "spt.run", "tests")), name
        if is_within(name, ("hydra", "omegaconf")):
            assert is_within(module, CONFIG_USERS), f"{module} imports {name}"
        if part is not None and name.split(".")[0] == "spt" and not is_within(name, (part,)):
            assert is_within(name, SPT_MAY_USE[part]), f"{module} imports {name}"


def test_imports_make_no_cycle() -> None:
    modules = {module_name(path): path for path in SOURCES}
    edges = {name: {target for target in imports(path) if target in modules} for name, path in modules.items()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join([*trail[trail.index(name) :], name])
        if name not in done:
            for target in sorted(edges[name]):
                visit(target, (*trail, name))
            done.add(name)

    for name in sorted(edges):
        visit(name, ())


@pytest.mark.parametrize("path", FILES, ids=label)
def test_a_file_is_small_and_named_after_what_it_holds(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    is_method = path.parent == ROOT / "methods"
    assert lines < (20 if path.name == "train.py" else 200 if is_method else 401)
    assert path.stem not in FORBIDDEN_NAMES
    assert path.read_text().isascii()


def docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines that explain rather than do."""
    first = node.body[0]
    return (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(node) is not None else 0


@pytest.mark.parametrize("path", FILES, ids=label)
def test_a_function_fits_on_a_screen(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = (node.end_lineno or 0) - node.lineno + 1 - docstring_lines(node)
            limit = 25 if node.name == "step" and path.parent == ROOT / "methods" else 40
            assert body <= limit, f"{node.name} has {body} lines"


@pytest.mark.parametrize("path", SOURCES, ids=label)
def test_the_library_does_not_print(path: Path) -> None:
    calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    assert not any(isinstance(call, ast.Name) and call.id == "print" for call in calls)


def test_checking_a_config_needs_no_torch() -> None:
    names = [module_name(path) for path in SOURCES if is_within(module_name(path), ("spt.config",))]
    light = [name for name in names if name != "spt.config.build"]
    code = f"import sys, spt, {', '.join(light)}; sys.exit('torch' in sys.modules or 'lightning' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
