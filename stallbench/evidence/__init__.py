"""Published results: one small file for each run or study, from which pages are made, and which says by itself when it is stale."""
