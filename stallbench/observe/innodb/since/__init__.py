"""What a MariaDB or MySQL server still knows of a time that is over: what `stallbench observe --since` reads, one file for each subject."""
