"""Sections 9.6 and 9.7 for the plain consumer: one list of bits, popped from the front."""

from __future__ import annotations

Bits = list[int]


def _number(bits: Bits, count: int) -> int:
    taken = [bits.pop(0) for _ in range(count)]
    return sum(bit * 2**place for place, bit in enumerate(taken))


def _subset(code: int, things: int, bits: Bits) -> list[int]:
    if code == 128:
        return [thing for thing in range(things) if bits.pop(0)]
    if code in {64, 96}:
        return [] if code == 64 else list(range(things))
    listed: list[int] = []
    while True:
        ones = 0
        while ones < 24 and bits.pop(0):
            ones += 1
        gap = ones * 2 ** (code % 32) + _number(bits, code % 32) if ones < 24 else _number(bits, 32)
        listed.append(gap + (listed[-1] + 1 if listed else 0))
        if listed[-1] == things:
            return [thing for thing in range(things) if (thing in listed) == (code < 32)]


def ranked(classes: bytes, items: bytes, old: list[int], width: int) -> dict[int, int]:
    """New bits by position."""
    half = 2 ** (8 * width - 1)
    level = [(bits % half) // 2 ** (8 * width - 9) if width > 1 else bits % half for bits in old]
    bits = [byte >> place & 1 for byte in items for place in range(8)]
    codes = list(classes[1 + classes[0] :])
    found = {}
    first = 0
    for last in classes[1 : 1 + classes[0]]:
        members = [position for position in range(len(old)) if first <= level[position] <= last]
        first = last + 1
        changed = [members[rank] for rank in _subset(codes.pop(0), len(members), bits)]
        if not changed:
            continue
        flip = _subset(codes.pop(0), len(changed), bits)
        down = _subset(codes.pop(0), len(changed), bits)
        length = dict.fromkeys(range(len(changed)), 0)
        layer = list(range(len(changed)))
        while layer and max(length.values()) < 8 * width - 1:
            layer = [layer[number] for number in _subset(codes.pop(0), len(layer), bits)]
            for item in layer:
                length[item] += 1
        for item, position in enumerate(changed):
            size = length[item]
            value = 2 ** (size - 1) + _number(bits, size - 1) if size else 0
            distance = value + (item not in flip)
            magnitude = old[position] % half + (-distance if item in down else distance)
            found[position] = magnitude + half * ((old[position] >= half) != (item in flip))
    assert not codes, "code bytes left over"
    assert len(bits) < 8
    assert not any(bits)
    return found
