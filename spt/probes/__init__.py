"""Online evaluation: what the embeddings are good for, measured while they are trained and without touching them."""
