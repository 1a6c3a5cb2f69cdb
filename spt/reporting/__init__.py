"""What a run leaves behind: metrics, summary, pictures, and the lines a user reads."""
