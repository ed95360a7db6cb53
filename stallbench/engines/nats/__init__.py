"""NATS, whose queues are JetStream's."""
