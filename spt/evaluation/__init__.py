"""How good embeddings are: pure functions of embeddings and labels."""
