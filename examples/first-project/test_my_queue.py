"""Run with pytest. The fixture ``stallbench`` comes with the package; each run is on a server of its own."""


def test_the_queue_keeps_up_while_a_transaction_is_idle(stallbench):
    verdict = stallbench.run("scenario.toml")
    assert verdict.passed, verdict.reason
