"""Did you mean: the existing names closest to one that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def closest(name: str, names: Iterable[str]) -> list[str]:
    """Up to three existing names that the given one may have been meant to be, best first.

    A key whose last word is right (lr for optimizer.lr) comes before keys that merely look alike.
    """
    known = sorted(set(names))
    last = name.rpartition(".")[2]
    same_word = [key for key in known if key.rpartition(".")[2] == last]
    alike = get_close_matches(name, known, n=3, cutoff=0.6)
    same_word.sort(key=lambda key: (key not in alike, key.count("."), key))
    return list(dict.fromkeys([*same_word, *alike]))[:3]
