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
LANES = 16
"""Numbers that ``step_over`` works on at once."""


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


def _at_least(_typing: Any, array: Any, _start: Any, _limit: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        block = ir.VectorType(ir.IntType(8), BLOCK)
        loaded = builder.load(
            _address(context, builder, signature.args[0], arguments[0], arguments[1]), align=1, typ=block
        )
        one = builder.insert_element(ir.Constant(block, ir.Undefined), arguments[2], ir.IntType(32)(0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), BLOCK), [0] * BLOCK)
        limit = builder.shuffle_vector(one, ir.Constant(block, ir.Undefined), zeros)
        return builder.bitcast(builder.icmp_unsigned(">=", loaded, limit), ir.IntType(BLOCK))

    return types.uint64(array, types.intp, types.uint8), generate


def _step_over(_typing: Any, left: Any, counts: Any, _start: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide, narrow = ir.VectorType(ir.IntType(32), LANES), ir.VectorType(ir.IntType(8), LANES)
        zero = ir.IntType(64)(0)
        place = _address(context, builder, signature.args[0], arguments[0], zero)
        before = builder.load(place, align=1, typ=wide)
        by = _address(context, builder, signature.args[1], *arguments[1:])
        steps = builder.zext(builder.load(by, align=1, typ=narrow), wide)
        fewer = builder.icmp_unsigned("<", before, steps)
        after = builder.select(fewer, before, builder.sub(before, steps))
        builder.store(after, builder.bitcast(place, wide.as_pointer()), align=1)
        return builder.zext(builder.bitcast(fewer, ir.IntType(LANES)), ir.IntType(64))

    return types.uint64(left, counts, types.intp), generate


def _load_word(_typing: Any, array: Any, _place: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], *arguments)
        return builder.load(address, align=1, typ=ir.IntType(64))

    return types.uint64(array, types.intp), generate


def _store_word(_typing: Any, array: Any, _place: Any, _word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], *arguments[:2])
        builder.store(arguments[2], builder.bitcast(address, ir.IntType(64).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.uint64), generate


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
at_least: Any = intrinsic(_at_least)
"""Which of 64 bytes, from ``start`` on, are a limit or more: bit ``i`` of a uint64 for the ``i``-th of them."""
step_over: Any = intrinsic(_step_over)
"""Take 16 counts, bytes from ``start`` on, from 16 uint32, where these are not fewer; bit ``i`` where they are."""
load_word: Any = intrinsic(_load_word)
"""The uint64 in eight bytes of an array of bytes, from any place on."""
store_word: Any = intrinsic(_store_word)
"""Put a uint64 there."""
prefetch: Any = intrinsic(_prefetch)
"""Begin to load the cache line of an element; an index that is out of bounds does no harm.

Into the second-level cache, because that has more requests to memory under way than the first.
"""
count_ones: Any = intrinsic(_count_ones)
"""Number of ones in a uint64."""
lowest_one: Any = intrinsic(_lowest_one)
"""Place of the lowest one in a uint64, 0 to 63; 64 if there is none."""
