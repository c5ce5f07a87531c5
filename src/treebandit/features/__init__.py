"""What a person gives, checked and made into float32 rows: inputs, frames, encodings, the arm index."""
