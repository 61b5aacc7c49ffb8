"""What LLVM can do and Numba does not offer.

It compiles for every processor; one that has no such instruction does the same with others.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

BLOCK = 64
"""Elements that ``differing`` compares at once."""


def _differing(_typing: Any, first: Any, second: Any, _start: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        block = ir.VectorType(ir.IntType(first.dtype.bitwidth), BLOCK)
        loaded = [
            builder.load(_address(context, builder, array, value, arguments[2]), align=1, typ=block)
            for array, value in zip(signature.args[:2], arguments[:2], strict=True)
        ]
        return builder.bitcast(builder.icmp_unsigned("!=", *loaded), ir.IntType(BLOCK))

    return types.uint64(first, second, types.intp), generate


def _prefetch(_typing: Any, array: Any, _index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(), word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
        address = _address(context, builder, signature.args[0], arguments[0], arguments[1])
        to_read, locality, data = word(0), word(2), word(1)
        builder.call(function, [address, to_read, locality, data])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


def _count_ones(_typing: Any, _word: Any) -> Any:
    return types.int64(types.uint64), lambda _context, builder, _signature, arguments: builder.ctpop(*arguments)


def _lowest_one(_typing: Any, _word: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.int64(types.uint64), generate


def _address(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [index])


differing: Any = intrinsic(_differing)
"""Which of 64 elements of two arrays differ, from ``start`` on: bit ``i`` of a uint64 for the ``i``-th of them."""
prefetch: Any = intrinsic(_prefetch)
"""Begin to load the cache line of an element; an index that is out of bounds does no harm.

Into the second-level cache, because that has more requests to memory under way than the first.
"""
count_ones: Any = intrinsic(_count_ones)
"""Number of ones in a uint64."""
lowest_one: Any = intrinsic(_lowest_one)
"""Place of the lowest one in a uint64, 0 to 63; 64 if there is none."""
