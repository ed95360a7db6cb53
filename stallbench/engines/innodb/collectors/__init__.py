"""What is sampled of MariaDB and MySQL during a run, a file for each subject."""
