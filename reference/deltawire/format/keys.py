"""Where things are under a stream's prefix (SPEC.md section 6)."""

from __future__ import annotations

import re

STREAM = "stream.json"
HEAD = "head.json"
VERSIONS = "versions/"
ANCHORS = "anchors/"
SPANS = "spans/"
DATA = "data/"
PROBES = "probe/"
LEASE = "leases/writer.json"
PINS = "leases/readers/"
RETENTION = "retention.json"

MAX_VERSION = (1 << 53) - 1
"""The largest version number: what every JSON reader holds exactly."""

MAX_KEY_BYTES = 512
SEGMENT = r"[A-Za-z0-9_-](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?"
"""One segment of a key: it neither starts nor ends with a dot (KEY-1)."""

_NUMBERED = re.compile(r"(?:versions|anchors)/([0-9]{20})\.json")
_SPAN = re.compile(r"spans/([0-9]{20})-([0-9]{20})\.json")
_DATA = re.compile(r"data/([0-9]{20})-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})/.+")
_PIN = re.compile(r"leases/readers/([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.json")


def version_key(version: int) -> str:
    """Key of a version record: 20 digits, so that byte order is number order (KEY-2)."""
    return f"{VERSIONS}{version:020d}.json"


def anchor_key(version: int) -> str:
    """Key of the anchor record of a version (KEY-2)."""
    return f"{ANCHORS}{version:020d}.json"


def span_key(base: int, target: int) -> str:
    """Key of the record of a span: the target comes first, so that byte order is the order of targets (KEY-2)."""
    return f"{SPANS}{target:020d}-{base:020d}.json"


def parse_span(key: str) -> tuple[int, int] | None:
    """Base and target of a span's key; None for any other key, which readers ignore (KEY-5)."""
    match = _SPAN.fullmatch(key)
    if match is None:
        return None
    target, base = int(match[1]), int(match[2])
    return (base, target) if base < target <= MAX_VERSION else None


def pin_key(pin_id: str) -> str:
    """Key of a reader's pin."""
    return f"{PINS}{pin_id}.json"


def parse_pin(key: str) -> str | None:
    """The id in a pin's key; None for any other key, which maintainers ignore (KEY-5)."""
    match = _PIN.fullmatch(key)
    return None if match is None else match[1]


def data_prefix(version: int, commit_id: str) -> str:
    """Folder of one logical write, for every object that its record introduces (KEY-4, KEY-9)."""
    return f"{DATA}{version:020d}-{commit_id}/"


def table_key(version: int, commit_id: str) -> str:
    """Key of the tensor table that a version introduces (TAB-1)."""
    return f"{data_prefix(version, commit_id)}tensors/table.json"


def files_prefix(version: int, commit_id: str) -> str:
    """Folder of the auxiliary files that a version with a delta introduces (FIL-1)."""
    return f"{data_prefix(version, commit_id)}files/"


def parse_data(key: str) -> tuple[int, str] | None:
    """Version and commit id of the data folder that a key is in; None for any other key (KEY-4)."""
    match = _DATA.fullmatch(key)
    if match is None or int(match[1]) > MAX_VERSION:
        return None
    return int(match[1]), match[2]


def part_name(index: int) -> str:
    """File name of a delta part within its data folder."""
    return f"part-{index:05d}.arrow"


def shard_name(index: int, count: int) -> str:
    """File name of a snapshot shard, counted from 1 as Hugging Face does (SNP-2)."""
    return f"model-{index:05d}-of-{count:05d}.safetensors"


SHARD_INDEX = "model.safetensors.index.json"


def parse_numbered(key: str) -> int | None:
    """Version number of a version or anchor key; None for any other key, which readers ignore (KEY-5)."""
    match = _NUMBERED.fullmatch(key)
    if match is None:
        return None
    number = int(match[1])
    return number if number <= MAX_VERSION else None
