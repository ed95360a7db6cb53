"""What is sampled of PostgreSQL during a run, a file for each subject."""
