"""What happens around training: speed, progress, pictures."""
