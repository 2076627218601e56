"""Errors: one sentence, an exit code each, and the drawing at the top of the file tells the truth."""

import re

import pytest

from paceline import errors
from paceline.errors import ConfigError, LinkError, PacelineError, nearest


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (PacelineError("the disk is full"), "the disk is full."),
        (PacelineError("found 3", expected="4"), "found 3; expected 4."),
        (PacelineError("found 3", remedy="Ask again."), "found 3. Ask again."),
        (
            LinkError("silence", expected="a push", remedy="Is it running?", where="rank 2 on hostb"),
            "rank 2 on hostb: silence; expected a push. Is it running?",
        ),
    ],
)
def test_the_message_says_where_what_was_seen_what_was_expected_and_what_to_do(error, sentence):
    assert str(error) == sentence


def test_the_parts_of_the_message_can_be_read_one_by_one():
    error = ConfigError("found 3", expected="4", remedy="Ask again.", where="a.yaml")
    assert (error.seen, error.expected, error.remedy, error.where) == ("found 3", "4", "Ask again.", "a.yaml")


def test_the_drawing_names_every_error_with_its_exit_code():
    drawn = {name: int(code) for name, code in re.findall(r"-- (\w+) +(\d+)", errors.__doc__)}
    assert drawn == {error.__name__: error.exit_code for error in PacelineError.__subclasses__()}


def test_exit_codes_tell_errors_apart():
    codes = [error.exit_code for error in (PacelineError, *PacelineError.__subclasses__())]
    assert len(set(codes)) == len(codes)
    assert 0 not in codes


def test_a_word_nearly_right_gets_the_word_that_was_meant():
    assert nearest("hybird", ["alone", "hybrid", "allreduce"]) == "Did you mean 'hybrid'?"


def test_a_word_like_none_gets_the_whole_list_in_order():
    assert nearest("zzz", iter(["hybrid", "alone"])) == "Known: alone, hybrid."
