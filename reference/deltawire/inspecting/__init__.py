"""Looking at a stream without following it: its history, what changed, whether all of it is sound."""
