"""What a network sees and what it makes of it, as pictures."""
