"""A scenario's cycle again and again on the same servers, tables and processes, so that drift can show.

`stallbench.soak.soak` is the story; docs/decisions/0008-what-a-cycle-is.md says what a cycle is, and why.
"""
