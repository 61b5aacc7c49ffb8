"""``python -m deltawire_conformance``."""

from deltawire_conformance.cli import main

main()
