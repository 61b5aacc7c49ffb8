"""States as torch tensors of every dtype and of any strides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import strategies as st

from deltawire import torch_bits, torch_digest
from deltawire.format.dtypes import DTYPES
from deltawire.producer import base, comparing, encoding, torch_comparing
from deltawire.targets import torch_access
from tests.strategies import State, next_states, states

KINDS = {name: kind for kind, name in torch_bits.DTYPE_NAMES.items()}
WIDE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

CPU = torch.device("cpu")
LAYOUTS = ("contiguous", "reversed", "every second", "expanded rows")


def laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """An equal tensor of other strides."""
    if layout == "reversed" and tensor.dim() > 1:
        order = list(reversed(range(tensor.dim())))
        return tensor.permute(order).contiguous().permute(order)
    if layout == "every second" and tensor.dim():
        room = torch.full((*tensor.shape[:-1], 2 * tensor.shape[-1]), 77, dtype=tensor.dtype, device=tensor.device)
        room[..., ::2] = tensor
        return room[..., ::2]
    if layout == "expanded rows" and tensor.dim() and tensor.shape[0] > 1 and bool((tensor == tensor[:1]).all()):
        return tensor[:1].expand(tensor.shape)
    return tensor


def as_torch(
    state: State, layouts: dict[str, str] | None = None, *, device: torch.device = CPU
) -> dict[str, torch.Tensor]:
    """A state of dtypes that torch has, as new tensors."""
    found: dict[str, torch.Tensor] = {}
    for name, bits in state.bits.items():
        raw = torch_bits.from_numpy(bits.copy()).to(device).reshape(state.stored_shape(name))
        found[name] = laid_out(raw, (layouts or {}).get(name, "contiguous")).view(KINDS[state.dtypes[name].name])
    return found | {alias: found[name] for alias, name in state.aliases.items()}


def torch_bytes(tensors: dict[str, torch.Tensor]) -> dict[str, bytes]:
    """The bits of tensors, row-major."""
    return {
        name: tensor.contiguous().view(-1).view(WIDE[tensor.element_size()]).cpu().numpy().tobytes()
        for name, tensor in tensors.items()
    }


def in_torch(state: State) -> bool:
    """Whether torch has all of its dtypes."""
    return all(dtype.name in KINDS for dtype in state.dtypes.values())


def torch_states() -> st.SearchStrategy[State]:
    """States of the dtypes that torch has: others are taken for one of the same width."""

    def known(state: State) -> State:
        same = {1: "F8_E4M3", 2: "BF16", 4: "F32", 8: "C64"}
        kinds = {n: d if d.name in KINDS else DTYPES[same[d.width]] for n, d in state.dtypes.items()}
        shapes = {n: s if state.dtypes[n] is kinds[n] else state.stored_shape(n) for n, s in state.shapes.items()}
        return replace(state, dtypes=kinds, shapes=shapes)

    return states().map(known)


@st.composite
def torch_lines(draw: st.DrawFn) -> list[State]:
    """States of successive versions; now and then the table changes."""
    line = [draw(torch_states())]
    for _ in range(draw(st.integers(1, 3))):
        line.append(draw(torch_states() if draw(st.integers(0, 5)) == 0 else next_states(line[-1])))
    return line


@contextmanager
def small_boxes(elements: int) -> Iterator[None]:
    """Boxes, runs and groups so small that tensors of a test are cut in the middle of their rows."""
    with pytest.MonkeyPatch.context() as patch:
        places: list[tuple[Any, str]] = [
            (encoding, "BOX_ELEMENTS"), (base, "BOX_ELEMENTS"), (base, "CHUNK"), (comparing, "CHUNK"),
            (torch_comparing, "CHUNK"), (torch_access, "RUN"), (torch_access, "GROUP_BYTES"),
            (torch_digest, "_RUN_ON_CPU"),
        ]  # fmt: skip
        for module, name in places:
            patch.setattr(module, name, elements)
        yield
