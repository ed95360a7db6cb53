"""What `stallbench observe` looks at on MariaDB and MySQL: one subject a file."""
