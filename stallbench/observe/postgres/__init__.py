"""What `stallbench observe` looks at on PostgreSQL: one subject a file."""
