"""Size, speed and memory, measured; never asserted in a timed test.

``python -m benchmarks`` runs everything and prints a table; ``--results FOLDER`` also keeps the figures there and draws
them. Speeds are quoted as ratios to a plain memory copy of the same bytes in the same run, because machines differ and
are noisy.
"""
