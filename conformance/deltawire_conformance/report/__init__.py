"""Reports of a run: for programs, for CI, for a README and for a person with a minute."""
