"""What a person gives, checked and turned into float32 rows: inputs, frames, encodings, scales, arms."""
