"""How the golden trees below ``cases/`` are made: ``python -m authoring`` in ``conformance/``."""
