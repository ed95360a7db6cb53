"""What is sampled of a SQLite database during a run, a file for each subject."""
