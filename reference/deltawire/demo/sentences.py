"""Sentences to train on: those of the documentation that comes with Python."""

from __future__ import annotations

import importlib
import inspect
import itertools
import re
import warnings
from collections.abc import Iterator

_MODULES = (
    "argparse", "asyncio", "collections", "concurrent.futures", "csv", "datetime", "decimal", "difflib",
    "email.message", "fractions", "heapq", "ipaddress", "itertools", "json", "logging", "pathlib", "random",
    "shutil", "statistics", "string", "subprocess", "tarfile", "textwrap", "threading", "typing", "unittest",
    "urllib.parse", "zipfile",
)  # fmt: skip
_SENTENCE_END = re.compile(r"(?<=[.:!?])\s+|\n\s*\n")
_SHORTEST, _LONGEST = 30, 240
PROBE = "A trainer publishes each version of its weights, and every engine that follows holds the same bits."
"""The sentence whose embedding is compared at the end."""


def sentence_pairs() -> list[tuple[str, str]]:
    """Neighbouring sentences of one docstring: two texts that mean nearly the same, in a fixed order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # what is going away is documented just as well
        texts = list(_docstrings())
    pairs = (pair for text in texts for pair in itertools.pairwise(_sentences(text)) if pair[0] != pair[1])
    return list(dict.fromkeys(pairs))


def _docstrings() -> Iterator[str]:
    for name in _MODULES:
        module = importlib.import_module(name)
        members = [getattr(module, member) for member in sorted(dir(module)) if not member.startswith("_")]
        classes = [member for member in members if inspect.isclass(member)]
        methods = [value for owner in classes for _, value in sorted(vars(owner).items()) if callable(value)]
        for thing in (module, *members, *methods):
            if text := inspect.getdoc(thing):
                yield text


def _sentences(text: str) -> list[str]:
    flat = (" ".join(sentence.split()) for sentence in _SENTENCE_END.split(text))
    return [sentence for sentence in flat if _SHORTEST <= len(sentence) <= _LONGEST]
