"""A queue declares which of its options limits attempts, ends a claim after a time, or sets the batch or the window of a claim."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import Field

from stallbench.queues import find_queues
from stallbench.queues.queue import OptionRole, QueueOptions


class Options(QueueOptions):
    """Options with names of their own, as in a queue that the bench does not know."""

    patience: Annotated[int, OptionRole.EXPIRY] = Field(default=30, description="seconds")
    lives: Annotated[int, OptionRole.ATTEMPT_LIMIT] = Field(default=0, ge=0, description="attempts")
    handful: Annotated[int, OptionRole.BATCH] = Field(default=1, ge=1, description="jobs")
    choice: Annotated[int, OptionRole.WINDOW] = Field(default=1, ge=1, description="jobs")


def test_an_option_is_recognised_by_its_role_and_not_by_its_name() -> None:
    assert [Options.find_option(role) for role in OptionRole] == ["lives", "patience", "handful", "choice"]
    options = Options(patience=5, lives=3, handful=4, choice=10)
    assert [options.value_of(role) for role in OptionRole] == [3, 5, 4, 10]


def test_a_value_without_effect_counts_as_none() -> None:
    options = Options(lives=0, handful=1, choice=1)
    assert options.value_of(OptionRole.ATTEMPT_LIMIT) is None
    assert options.value_of(OptionRole.WINDOW) is None


def test_options_without_a_role_have_no_value_for_it() -> None:
    assert QueueOptions.find_option(OptionRole.EXPIRY) is None
    assert QueueOptions().value_of(OptionRole.EXPIRY) is None


@pytest.mark.parametrize("kind", find_queues())
def test_no_two_options_of_a_queue_declare_the_same_role(kind: str) -> None:
    fields = find_queues()[kind].options_type.model_fields.values()
    declared = [role for field in fields for role in field.metadata if isinstance(role, OptionRole)]
    assert len(declared) == len(set(declared))


@pytest.mark.parametrize(
    ("kind", "role", "option"),
    [
        ("laravel", OptionRole.ATTEMPT_LIMIT, "tries"),
        ("postgrestue", OptionRole.ATTEMPT_LIMIT, "max_attempts"),
        ("laravel", OptionRole.EXPIRY, "retry_after"),
        ("laravel_optimistic", OptionRole.EXPIRY, "retry_after"),
        ("laravel_redis", OptionRole.EXPIRY, "retry_after"),
        ("redis_batches", OptionRole.EXPIRY, "retry_after"),
        ("status_column", OptionRole.EXPIRY, "expire_after"),
        ("beanstalkd", OptionRole.EXPIRY, None),
        ("laravel_optimistic", OptionRole.WINDOW, "window"),
        ("que", OptionRole.WINDOW, None),
    ],
)
def test_the_options_of_the_queues_have_their_roles(kind: str, role: OptionRole, option: str | None) -> None:
    assert find_queues()[kind].options_type.find_option(role) == option


@pytest.mark.parametrize(
    ("kind", "options", "rescues"),
    [
        ("postgrestue", {}, False),
        ("postgrestue", {"rescue": "pings"}, True),
        ("postgrestue", {"rescue": "time_limit"}, True),
        ("laravel", {}, True),
        ("token_store", {}, False),
    ],
)
def test_an_option_may_decide_whether_dead_workers_jobs_are_rescued(kind: str, options: dict[str, str], rescues: bool) -> None:
    queue = find_queues()[kind]
    assert queue.rescues_jobs_by(queue.options_type.model_validate(options)) is rescues


def test_a_window_in_workers_is_read_after_it_was_resolved() -> None:
    queue = find_queues()["laravel_optimistic"]
    options = queue.resolve_options(queue.options_type.model_validate({"window": "2N"}), workers=5)
    assert options.value_of(OptionRole.WINDOW) == 10
