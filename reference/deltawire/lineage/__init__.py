"""Where a state comes from when it does not come from a trainer: rollbacks and forks."""
