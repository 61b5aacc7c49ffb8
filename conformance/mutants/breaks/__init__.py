"""What can be taken away, an area to a module; each has ``MUTANTS``."""
