"""How the changed elements of a box become bytes."""
