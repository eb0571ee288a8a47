"""Names and envoys inside a vision tower, one file per model type."""
