"""What does the rest of the application feel? A small client beside the queue, in a process of its own (``python -m stallbench.run.bystander``).

It reads and writes a table of its own in the queue's database, one row by its primary key at a time, in open loop: `client` has its loop, `process`
creates the table and starts and stops the process.
"""
