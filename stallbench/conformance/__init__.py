"""What every queue must do: the promises of its operations, one by one, and under load at every crash point. The bench's own queues pass it."""
