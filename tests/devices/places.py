"""Where tensors lie: on the CPU, or on a device, which torch's own tensors on the CPU are taken for."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from deltawire.format.dtypes import Bits
from deltawire.format.tensors import Tensor
from deltawire.producer.base import BaseState
from deltawire.producer.comparing import SourceArray, SourceTensor
from deltawire.producer.torch_comparing import SourceOnDevice
from deltawire.torch_bits import from_numpy

Place = Literal["cpu", "device", "device, base on cpu"]
PLACES: tuple[Place, ...] = ("cpu", "device", "device, base on cpu")


def source_tensor(bits: Bits, place: Place) -> SourceTensor:
    """Flat bits as a tensor to publish; shares their memory."""
    if place == "cpu":
        return SourceArray(bits)
    return SourceOnDevice(from_numpy(bits), device_base=place == "device")


def bits_in(base: BaseState, tensor: Tensor) -> npt.NDArray[np.unsignedinteger]:
    """Flat bits that a base holds of a tensor."""
    return np.frombuffer(b"".join(base.read(tensor)), tensor.dtype.storage)
