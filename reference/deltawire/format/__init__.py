"""The pure core: what is on the wire, without any I/O."""
