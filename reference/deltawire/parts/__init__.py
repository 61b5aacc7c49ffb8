"""Delta parts: Arrow IPC files whose batches can be read one by one (SPEC.md section 8.6)."""
