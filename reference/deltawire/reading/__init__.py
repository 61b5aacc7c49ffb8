"""Reading a stream's records and data: checked, bounded, and by the cheapest way."""
