"""Plots of what was measured, one a module: SVG files whose text is drawn as outlines."""

from benchmarks.plots.bytes_per_change import draw_bytes_per_change
from benchmarks.plots.catching_up import draw_catching_up
from benchmarks.plots.growth import draw_growth
from benchmarks.plots.speed import draw_speed
from benchmarks.plots.step_size import draw_step_size

__all__ = ["draw_bytes_per_change", "draw_catching_up", "draw_growth", "draw_speed", "draw_step_size"]
