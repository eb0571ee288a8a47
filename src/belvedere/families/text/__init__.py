"""Names and envoys inside a text stack, one file per model type."""
