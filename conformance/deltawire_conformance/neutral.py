"""States in a form that every language can print: names, dtypes, shapes and hashes (ADAPTER.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Annotated

from msgspec import Meta, Struct

Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class NeutralTensor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tensor: its elements are little-endian, row-major, as stored."""

    dtype: str
    shape: tuple[int, ...]
    sha256: Sha256


class NeutralState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is held; ``version`` is None where nothing is."""

    version: int | None
    state_digest: str | None = None
    tensors: dict[str, NeutralTensor] = {}
    files: dict[str, Sha256] = {}


NOTHING = NeutralState(version=None)


def neutral_tensor(dtype: str, shape: Iterable[int], data: bytes) -> NeutralTensor:
    """Describe a tensor by its stored bytes."""
    return NeutralTensor(dtype=dtype, shape=tuple(shape), sha256=hashlib.sha256(data).hexdigest())


def neutral_files(files: Mapping[str, bytes]) -> dict[str, str]:
    """Hashes of auxiliary files by name."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def differences(found: NeutralState, expected: NeutralState, *, files: bool = True) -> list[str]:
    """Say in what two states differ, a line for each thing.

    Args:
        found: what an adapter holds.
        expected: what it should hold.
        files: whether auxiliary files count.
    """
    lines = [
        f"{name}: {getattr(found, name)!r}, expected {getattr(expected, name)!r}"
        for name in ("version", "state_digest")
        if getattr(found, name) != getattr(expected, name)
    ]
    lines += _by_name("tensor", found.tensors, expected.tensors)
    if files:
        lines += _by_name("file", found.files, expected.files)
    return lines


def _by_name(what: str, found: Mapping[str, object], expected: Mapping[str, object]) -> list[str]:
    lines = [f"{what} {name!r} is missing" for name in sorted(expected.keys() - found.keys())]
    lines += [f"{what} {name!r} is not expected" for name in sorted(found.keys() - expected.keys())]
    lines += [
        f"{what} {name!r}: {found[name]}, expected {expected[name]}"
        for name in sorted(found.keys() & expected.keys())
        if found[name] != expected[name]
    ]
    return lines
