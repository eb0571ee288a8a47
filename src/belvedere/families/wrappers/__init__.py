"""Where a wrapper hangs its parts and where image features enter, one file per model type."""
