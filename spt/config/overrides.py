"""Mistakes in what was typed on the command line, found before anything is composed from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from spt.config.closest import closest
from spt.config.tree import ConfigTree, Plain

NUMBERS_OR_WORDS = ("trainer.devices",)  # a number in its YAML, but words such as "auto" are as good


class Parsed(NamedTuple):
    """Command-line words that obey the grammar, and what is wrong with the others."""

    overrides: list[Override]
    mistakes: list[str]


def parse(words: Iterable[str]) -> Parsed:
    """Reads `key=value`, `+key=value`, `++key=value` and `~key`."""
    parser = OverridesParser.create()
    overrides: list[Override] = []
    mistakes: list[str] = []
    for word in words:
        try:
            override = parser.parse_override(word)
        except HydraException as error:
            mistakes.append(_grammar_mistake(word, error))
            continue
        if word.endswith("=") and not override.is_delete():
            key = word[:-1]
            none = f", or {key}=null for none" if "." in key else ""  # a group is switched off with ~
            mistakes.append(f"{word} gives no value.\n    try: {key}=VALUE{none}")
        else:
            overrides.append(override)
    return Parsed(overrides, mistakes)


def _grammar_mistake(word: str, error: HydraException) -> str:
    key, equals, value = word.partition("=")
    if not equals:
        return f"{word} gives no value.\n    try: {word}=VALUE"
    if "[" in key:
        return f"{word} cannot be read: an entry of a list is named with a dot.\n    try: key.0=VALUE"
    quoted = "'" + f'{key}="{value}"' + "'"
    if "=" in value:
        return f"{word} cannot be read: a value with = in it needs two pairs of quotes.\n    try: {quoted}"
    reason = str(error.__cause__ or error).splitlines()[0]
    return f"{word} cannot be read ({reason}): spaces and signs need quotes.\n    try: {quoted}"


def group_mistakes(overrides: Iterable[Override], tree: ConfigTree, *, multirun: bool) -> list[str]:
    """What is wrong with overrides that choose an option of a group, or that ask for several runs at once."""
    groups = tree.groups()
    mistakes = []
    for override in overrides:
        if override.is_sweep_override() and not multirun:
            mistakes.append(_sweep_mistake(override))
        elif override.key_or_group in groups:
            mistakes += _choice_mistakes(override, tree)
    return mistakes


def meant_choices(overrides: Iterable[Override], tree: ConfigTree) -> list[str]:
    """Words that choose options, a misspelt one replaced by the closest: keys are compared with what was meant."""
    groups, words = tree.groups(), []
    for override in overrides:
        word, group = override.input_line or "", override.key_or_group
        if not (group in groups or group.startswith("hydra/")) or override.is_sweep_override():
            continue
        if group not in groups or not _choice_mistakes(override, tree):
            words.append(word)
        elif not override.is_delete():
            near = closest(str(override.value()), tree.options(group))
            words += [f"{group}={near[0]}"] if near else []
    return words


def _sweep_mistake(override: Override) -> str:
    word = override.input_line or ""
    key, _, value = word.partition("=")
    return (
        f"{word} names several values, which is several runs.\n    try: -m {word} for a run each, "
        f"'{key}=[{value}]' for a list, or '{key}=\"{value}\"' for text with commas"
    )


def _choice_mistakes(override: Override, tree: ConfigTree) -> list[str]:
    group, word = override.key_or_group, override.input_line or ""
    entry = tree.choices().get(group)
    required = entry is not None and entry.option is not None and not entry.optional
    options = tree.options(group)
    off = f"{group}=none" if "none" in options else f"~{group}"
    if override.is_delete():
        return [_required_mistake(word, group, options)] if required else []
    if (override.is_add() or override.is_force_add()) and entry is not None and override.package is None:
        return [f"{word} adds a second {group}: there is one already.\n    try: {word.lstrip('+')}"]
    if not override.is_sweep_override() and override.value() is None:
        if required:
            return [_required_mistake(word, group, options)]
        return [f"{word} cannot be: a group is switched off with ~.\n    try: {off}"]
    fix = f"try: {group}={{}}" if options else "leave it out"
    return [
        f"{word}: there is no {group} called {option}; there are {', '.join(options) or 'none'}.\n"
        f"    {fix.format(*(closest(option, options) or options)[:1])}"
        for option in _options_named(override)
        if option not in options and "${" not in option and not isinstance(override.value(), dict)
    ]


def _required_mistake(word: str, group: str, options: list[str]) -> str:
    if "none" in options:
        return f"{word} cannot be: every run has a {group}, if only an empty one.\n    try: {group}=none"
    choices = " or ".join(f"{group}={option}" for option in options)
    return f"{word} cannot be: every run needs a {group}.\n    try: {choices}"


def _options_named(override: Override) -> list[str]:
    if override.is_sweep_override():
        values = list(override.sweep_string_iterator()) if override.is_discrete_sweep() else []
        return [option.strip(" '\"") for value in values for option in value.strip("[]").split(",")]
    value = override.value()
    return [str(option) for option in value] if isinstance(value, list) else [str(value)]


class Composed(NamedTuple):
    """What the YAML files give under the chosen options, before any key is overridden.

    Attributes:
        values: every dotted key with its value, mappings included; entries of lists by number.
        groups: the groups of the tree.
    """

    values: dict[str, Plain]
    groups: list[str]


def assignment_mistakes(overrides: Iterable[Override], composed: Composed, tree: ConfigTree) -> list[str]:
    """What is wrong with overrides that set, add or delete keys, the chosen options being what they are."""
    mistakes = []
    for override in overrides:
        if override.key_or_group in composed.groups or "/" in override.key_or_group:
            mistakes += _unknown_group(override, composed)
            continue
        for key, value in _assignments(override):
            mistake = _key_mistake(override, key, value, composed, tree)
            if mistake is not None:
                mistakes.append(mistake)
    return mistakes


def written_mistakes(keys: Iterable[str], composed: Composed, tree: ConfigTree) -> list[str]:
    """Keys written by a file that exist nowhere else, parents before children and each once."""
    mistakes: dict[str, str] = {}
    for key in keys:
        parents = {key[:dot] for dot, sign in enumerate(key) if sign == "."}
        if key not in composed.values and not parents & mistakes.keys() and not _is_open(key, composed):
            mistakes[key] = f"there is no key {key}; " + _advice(key, composed, tree)
    return list(mistakes.values())


def _unknown_group(override: Override, composed: Composed) -> list[str]:
    group = override.key_or_group
    if group in composed.groups or group.startswith("hydra/"):
        return []
    near = closest(group, composed.groups) or composed.groups
    return [f"{override.input_line}: there is no group {group}.\n    did you mean: {', '.join(near)}"]


def _assignments(override: Override) -> Iterator[tuple[str, Plain]]:
    """The leaves that an override sets: `key={a: 1, b: 2}` sets key.a and key.b."""
    value = None if override.is_delete() or override.is_sweep_override() else override.value()
    yield from _leaves(override.key_or_group, value)


def _leaves(key: str, value: object) -> Iterator[tuple[str, Plain]]:
    if isinstance(value, dict) and value:
        for name, child in value.items():
            yield from _leaves(f"{key}.{name}", child)
    else:
        # Hydra's own value types (quoted text) are read as text
        plain = value if isinstance(value, (bool, int, float, list, dict)) or value is None else str(value)
        yield key, plain


def _key_mistake(override: Override, key: str, value: Plain, composed: Composed, tree: ConfigTree) -> str | None:
    word = override.input_line
    adds = override.is_add() or override.is_force_add()
    if key in composed.values:
        if override.is_add() and not isinstance(value, (dict, list)):
            return f"{word}: {key} is there already; + only adds.\n    try: {key}={_shown(value)}"
        known = composed.values[key]
        return None if override.is_delete() or override.is_sweep_override() else _type_mistake(word, key, value, known)
    if key.startswith("hydra.") and adds:
        return None
    if _is_open(key, composed):
        return None if adds else f"{word}: {key} is not there yet; + adds it.\n    try: +{key}={_shown(value)}"
    kind = "key" if "." in key else "group or key"
    return f"{word}: there is no {kind} {key}.\n    " + _advice(key, composed, tree)


def _is_open(key: str, composed: Composed) -> bool:
    """Whether the nearest parent that exists is written `{}` in its YAML: a place for keys that nobody can list."""
    parents = key.split(".")[:-1]
    while parents and ".".join(parents) not in composed.values:
        parents.pop()
    parent = ".".join(parents)
    # an option that is empty as a whole (logger=none) is not a place to put keys
    return composed.values.get(parent) == {} and parent not in composed.groups


def _type_mistake(word: str | None, key: str, value: Plain, known: Plain) -> str | None:
    if key in NUMBERS_OR_WORDS or value is None or (isinstance(value, str) and "${" in value):
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(known, (int, float)) and not isinstance(known, bool) and not is_number:
        return f"{word}: {key} is a number, and {_shown(value)} is none.\n    try: {key}={known}"
    if isinstance(known, list) and not isinstance(value, list):
        return f"{word}: {key} is a list.\n    try: '{key}={_shown(known)}'"
    if isinstance(known, dict) and known and not isinstance(value, dict):
        names = ", ".join(f"{key}.{name}" for name in known)
        return f"{word}: {key} is a set of keys ({names}), not one value.\n    try: {key}.{next(iter(known))}=VALUE"
    return None


def _advice(key: str, composed: Composed, tree: ConfigTree) -> str:
    """The options under which the key exists, else the closest keys that exist now or under another option."""
    group, _, rest = key.partition(".")
    owners: dict[str, list[str]] = {}
    for option in tree.options(group) if rest else []:
        for name in tree.keys(group, option):
            owners.setdefault(f"{group}.{name}", []).append(f"{group}={option}")
    if key in owners:
        return f"it exists with {' or '.join(owners[key])}"
    leaves = [name for name, value in composed.values.items() if not isinstance(value, dict) or "." not in name]
    known = [name for name in leaves if not name.startswith("hydra.") or key.startswith("hydra")]
    known = [name for name in known if not name.endswith("_")]  # _target_ and its like are not what was misspelt
    # a word without dots was meant for a group or a key of the root, or is the last word of a key
    top = [name for name in [*known, *composed.groups] if "." not in name or name.endswith(f".{key}")]
    elsewhere = [name for name in owners if not name.endswith("_")]
    near = closest(key, [*known, *elsewhere] if rest else top)
    if not near:
        return "see them all: python train.py --cfg job"
    shown = [name if name in composed.values or not rest else f"{name} (with {owners[name][0]})" for name in near]
    return f"did you mean: {', '.join(shown)}"


def _shown(value: Plain) -> str:
    """A value as it is typed on the command line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ",".join(_shown(entry) for entry in value) + "]"
    return str(value)
