"""Where tensors lie: on the CPU, or on a device: an accelerator if there is one, else the CPU is taken for one."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from deltawire.format.dtypes import Bits
from deltawire.format.tensors import Tensor
from deltawire.producer.base import BaseState
from deltawire.producer.comparing import SourceArray, SourceTensor
from deltawire.producer.torch_comparing import SourceOnDevice
from deltawire.torch_bits import from_numpy

DEVICE = torch.accelerator.current_accelerator() or torch.device("cpu")

Place = Literal["cpu", "device", "device, base on cpu"]
PLACES: tuple[Place, ...] = ("cpu", "device", "device, base on cpu")


def source_tensor(bits: Bits, place: Place) -> SourceTensor:
    """Flat bits as a tensor to publish."""
    if place == "cpu":
        return SourceArray(bits)
    return SourceOnDevice(from_numpy(bits).to(DEVICE), device_base=place == "device")


def bits_in(base: BaseState, tensor: Tensor) -> npt.NDArray[np.unsignedinteger]:
    """Flat bits that a base holds of a tensor."""
    return np.frombuffer(b"".join(base.read(tensor)), tensor.dtype.storage)
