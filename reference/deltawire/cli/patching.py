"""``deltawire diff`` and ``deltawire patch``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltawire.cli.looking import Every, change_members, print_changes, shared
from deltawire.cli.options import AsJson, CheckpointA

if TYPE_CHECKING:
    from deltawire.patches.applying import Patched
    from deltawire.patches.comparing import Comparison
    from deltawire.patches.writing import Written

CheckpointB = Annotated[Path, typer.Argument(metavar="B", help="The new checkpoint, likewise.", show_default=False)]
Out = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write a patch that makes B of A; needs the same tensors in both."
    ),
]
ExitCode = Annotated[bool, typer.Option("--exit-code", help="End with 1 if there are differences.")]
PatchFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="A patch, as 'deltawire diff -o' writes it.", show_default=False)
]
OutDirectory = Annotated[
    Path, typer.Argument(metavar="OUT", help="A directory that is empty or not there yet.", show_default=False)
]

DIFFERENT = 1
"""Exit status of ``diff --exit-code`` when there are differences."""


def diff(
    a: CheckpointA,
    b: CheckpointB,
    output: Out = None,
    every: Every = False,  # noqa: FBT002 - typer makes options of these
    exit_code: ExitCode = False,  # noqa: FBT002
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Compare two checkpoints on disk, bit by bit: git diff for weights.

    Shows in which tensors how many elements differ, and which tensors and files only one of the two has. With -o it
    also writes a patch: one small file from which 'deltawire patch' makes B out of A.
    """
    from deltawire.cli.output import print_json  # noqa: PLC0415 - heavy imports wait until a command runs
    from deltawire.cli.progress import progress, wanted  # noqa: PLC0415
    from deltawire.patches.comparing import compare  # noqa: PLC0415
    from deltawire.patches.writing import write_patch  # noqa: PLC0415

    passes = 1 if output is None else 2
    written = None
    with progress("diff", passes * state_bytes(a) if wanted() else None) as advance:
        if output is None:
            comparison = compare(a, b, advance=advance)
        else:
            written = write_patch(a, b, output, advance=advance)
            comparison = written.comparison
    if as_json:
        print_json(_members(comparison) | ({} if written is None else {"patch": _patch_members(written, output)}))
    else:
        _print_comparison(comparison, every=every)
        if written is not None:
            _print_written(written, output)
    if exit_code and not comparison.same:
        raise typer.Exit(DIFFERENT)


def state_bytes(path: Path) -> int:
    """Size of all tensors of a checkpoint, for a progress bar."""
    from deltawire.cli.metering import source_bytes  # noqa: PLC0415
    from deltawire.limits import DEFAULT_LIMITS  # noqa: PLC0415
    from deltawire.producer.sources import FilesSource  # noqa: PLC0415

    return source_bytes(FilesSource(path, limits=DEFAULT_LIMITS))


def _members(comparison: Comparison) -> dict[str, Any]:
    from msgspec import to_builtins  # noqa: PLC0415

    return {
        "same": comparison.same,
        "tensors": comparison.tensors,
        "elements": comparison.elements,
        "changed_tensors": len(comparison.changes),
        "changed_elements": comparison.changed_elements,
        "changes": [change_members(change) for change in comparison.changes],
        "added": to_builtins(comparison.added),
        "removed": to_builtins(comparison.removed),
        "retyped": to_builtins(comparison.retyped),
        "files": to_builtins(comparison.files),
    }


def _patch_members(written: Written, output: Path | None) -> dict[str, Any]:
    return {
        "file": str(output),
        "bytes": written.bytes,
        "base_digest": written.record.base_digest,
        "state_digest": written.record.state_digest,
    }


def _print_comparison(comparison: Comparison, *, every: bool) -> None:
    from deltawire.cli import units  # noqa: PLC0415
    from deltawire.cli.output import print_line  # noqa: PLC0415

    if comparison.same:
        print_line(f"no difference in {comparison.tensors} tensors, {units.count(comparison.elements)} elements")
        return
    if comparison.changes:
        print_changes(comparison.changes, every=every)
    for retyped in comparison.retyped:
        old, new = _shape(retyped.old_dtype, retyped.old_shape), _shape(retyped.new_dtype, retyped.new_shape)
        print_line(f"~ {retyped.name}  {old} -> {new}", style="yellow")
    for tensor in comparison.removed:
        print_line(f"- {tensor.name}  {_shape(tensor.dtype, tensor.shape)}", style="red")
    for tensor in comparison.added:
        print_line(f"+ {tensor.name}  {_shape(tensor.dtype, tensor.shape)}", style="green")
    for file in comparison.files:
        mark, style = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}[file.how]
        print_line(f"{mark} {file.name}", style=style)
    fraction = comparison.changed_elements / comparison.elements if comparison.elements else 0.0
    print_line(
        f"{units.count(comparison.changed_elements)} of {units.count(comparison.elements)} elements differ"
        f" ({units.percent(fraction)})\nin {len(comparison.changes)} of {comparison.tensors} tensors"
        f" that both have{shared(comparison.changes)}",
        style="bold",
    )


def _shape(dtype: str, shape: tuple[int, ...]) -> str:
    return f"{dtype} {list(shape)}"


def _print_written(written: Written, output: Path | None) -> None:
    from deltawire.cli import units  # noqa: PLC0415
    from deltawire.cli.output import print_line  # noqa: PLC0415

    per_change = written.bytes / written.comparison.changed_elements if written.comparison.changed_elements else None
    each = "" if per_change is None else f", {units.decimal(per_change)} B/change"
    print_line(f"{output}: {units.size(written.bytes)}{each}")


def patch(
    a: CheckpointA,
    file: PatchFile,
    out: OutDirectory,
    as_json: AsJson = False,  # noqa: FBT002 - typer makes an option of it
) -> None:
    """Apply a patch to a checkpoint and write the result to a new directory.

    A must be, bit for bit, what the patch was made from. The result is verified in full before it appears; A stays as
    it is.
    """
    from deltawire.cli.output import print_facts, print_json  # noqa: PLC0415 - heavy imports wait until a command runs
    from deltawire.cli.progress import progress, wanted  # noqa: PLC0415
    from deltawire.patches.applying import apply_patch  # noqa: PLC0415

    with progress("patch", 3 * state_bytes(a) if wanted() else None) as advance:
        done = apply_patch(a, file, out, advance=advance)
    if as_json:
        print_json(_patched_members(done, out))
        return
    delta = done.record.delta
    print_facts(
        {
            "directory": str(out),
            "files": ", ".join(done.files),
            "changed": f"{delta.changed_elements:,} elements in {delta.changed_tensors} tensors",
            "state digest": f"{done.state_digest} (verified)",
        }
    )


def _patched_members(done: Patched, out: Path) -> dict[str, Any]:
    return {
        "directory": str(out),
        "files": list(done.files),
        "changed_elements": done.record.delta.changed_elements,
        "changed_tensors": done.record.delta.changed_tensors,
        "base_digest": done.record.base_digest,
        "state_digest": done.state_digest,
        "metadata": done.record.metadata,
    }
