"""Plans that a person changed in an editor: what is refused, with what to do, and what is priced again."""

from pathlib import Path

import pytest
import yaml

from paceline import api
from paceline.errors import ConfigError
from paceline.planning.review import check, document
from paceline.planning.search import choose
from paceline.schema.plan import Plan
from profiles import MIXED, memory_profile, profile

MEASURED = profile(MIXED, 128, epoch=12_800, micro_batch=None)


def edited(made: Plan, folder: Path, change) -> Plan:
    """The plan as it comes back from an editor in which ``change`` was made to its YAML."""
    content = yaml.safe_load(document(made))
    change(content)
    (folder / "plan.yaml").write_text(yaml.safe_dump(content))
    return Plan.read(folder / "plan.yaml")


def _share(content, worker, share, job=0):
    content["jobs"][job]["workers"][worker]["share"] = share


@pytest.mark.parametrize("strategy", ["allreduce", "allreduce_even", "hybrid", "alone"])
def test_a_plan_that_was_only_read_again_is_the_same(strategy, tmp_path):
    made = choose(MEASURED, strategy)
    assert document(made).startswith("# A plan of paceline.")
    assert "share " in document(made).partition("version:")[0]
    assert check(edited(made, tmp_path, lambda content: None), MEASURED) == made


def test_a_plan_for_an_epoch_of_few_updates_can_run():
    short = profile({"a": [100.0], "b": [100.0]}, 512, epoch=1_437, micro_batch=None)
    made = choose(short, "hybrid")
    assert check(made, short).jobs == made.jobs
    assert all(job.local_steps * sum(job.shares) <= 1_437 for job in made.jobs)


MISTAKES = {
    "a sum": (lambda c: _share(c, 0, 63), "add up to 127; expected the global batch, 128. Add 1 samples to"),
    "too much": (lambda c: _share(c, 0, 80), "add up to 144; .* Take 16 samples from the workers"),
    "nothing": (lambda c: _share(c, 3, 0), r"c \(cuda:1\) of job 'all' has a share of 0; .* Take the worker out"),
    "a strategy": (lambda c: c.update(strategy="alreduce"), "unknown strategy 'alreduce'. Did you mean 'allreduce'"),
    "a measurement": (lambda c: c.update(strategy="solo"), "unknown strategy 'solo'"),
    "an unknown worker": (
        lambda c: c["jobs"][0]["workers"][1].update(device="cuda:7"), r"b \(cuda:7\) is no device of the profile. Did"
    ),
    "a worker twice": (
        lambda c: c["jobs"][0]["workers"].__setitem__(3, {**c["jobs"][0]["workers"][2]}),
        r"c \(cuda:0\) is in the plan more often.*expected 1 of them",
    ),
    "local steps": (lambda c: c["jobs"][0].update(local_steps=4), "has 4 local steps, but allreduce has no server"),
    "two jobs": (
        lambda c: c["jobs"].append({"name": "more", "workers": [c["jobs"][0]["workers"].pop()]}),
        "allreduce has 2 jobs; expected 1",
    ),
    "alone with company": (lambda c: c.update(strategy="alone"), "alone has 4 workers; expected 1"),
    "uneven equals": (
        lambda c: c.update(strategy="allreduce_even"), r"allreduce_even has shares from \d+ to \d+; expected equal ones"
    ),
    "no strategy": (lambda c: c.update(strategy="auto"), "a plan's strategy is auto; expected the one it is for"),
    "shards": (lambda c: c.update(shards=8), "the server has 8 shards; expected 1"),
    "the batch": (lambda c: c.update(global_batch=64), "global_batch is 64; expected 128, as in the profile"),
    "the cluster": (lambda c: c.update(cluster="other"), "the plan is for cluster 'other'; expected 'lab'"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_with_what_was_seen_and_what_to_do(mistake, tmp_path):
    change, said = MISTAKES[mistake]
    wrong = edited(choose(MEASURED, "allreduce"), tmp_path, change)
    with pytest.raises(ConfigError, match=said) as refused:
        check(wrong, MEASURED)
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c["jobs"][1].update(name="a"), "two jobs are called 'a'"),
        (lambda c: c["jobs"][0].update(local_steps=1000), "would train 1000 x 32 samples .* an epoch, 12800"),
        (lambda c: c.update(rule="merg"), "unknown rule 'merg'. Did you mean 'merge'"),
    ],
)  # fmt: skip
def test_mistakes_with_groups_are_refused(change, said, tmp_path):
    with pytest.raises(ConfigError, match=said):
        check(edited(choose(MEASURED, "hybrid"), tmp_path, change), MEASURED)


def test_a_misspelt_key_is_refused_by_the_record(tmp_path):
    with pytest.raises(ConfigError, match=r"unknown key .jobs\.0\.workers\.0\.shares.\. Did you mean .share."):
        edited(choose(MEASURED, "allreduce"), tmp_path, lambda c: c["jobs"][0]["workers"][0].update(shares=3))


def test_c013_no_edit_takes_more_at_once_than_a_card_holds(tmp_path):
    measured = memory_profile(40, spare=0.0)
    made = choose(measured, "allreduce")
    assert [worker.micro_batch for worker in made.workers] == [24, 17]

    def greedy(content):
        _share(content, 0, 15), _share(content, 1, 25)
        del content["jobs"][0]["workers"][1]["micro_batch"]

    with pytest.raises(ConfigError, match=r"a \(cuda:1\) would take 25 samples at once; expected at most 17"):
        check(edited(made, tmp_path, greedy), measured)
    pieces = edited(made, tmp_path, lambda content: (_share(content, 0, 15), _share(content, 1, 25)))
    assert check(pieces, measured).jobs[0].shares == (15, 25)


def test_times_come_from_the_profile_whatever_the_file_says(tmp_path):
    def boast(content):
        content["jobs"][0]["workers"][0].update(solo_samples_per_second=1e9, sample_seconds=1e-9)
        content["limit_samples_per_second"] = 1e9

    made = choose(MEASURED, "allreduce")
    assert check(edited(made, tmp_path, boast), MEASURED) == made


def test_an_edited_plan_is_priced_beside_the_planners_own(tmp_path):
    own = api.plan(MEASURED, "allreduce")
    worse = edited(own, tmp_path, lambda content: (_share(content, 0, 44), _share(content, 3, 36)))
    checked = api.check(MEASURED, worse)
    assert checked.jobs[0].shares == (44, 32, 16, 36)
    assert checked.predicted_samples_per_second == pytest.approx(128 / 0.36, rel=0.05)
    assert checked.reason.startswith("Changed by hand: ")
    planned = {other.strategy: other for other in checked.alternatives}["the planner's own allreduce"]
    assert planned.predicted_samples_per_second == own.predicted_samples_per_second
    assert api.check(MEASURED, own).reason == f"As the planner has it. {own.reason}"


def test_a_group_may_be_split_and_a_worker_left_out_by_hand(tmp_path):
    def split(content):
        job = content["jobs"][2]
        content["jobs"].append({"name": "last", "local_steps": 2, "workers": [job["workers"].pop()]})

    checked = api.check(MEASURED, edited(choose(MEASURED, "hybrid"), tmp_path, split))
    assert ([job.name for job in checked.jobs], checked.predicted_staleness) == (
        ["a", "b", "c", "last"],
        0.75,
    )  # the last waits

    def leave(content):
        content["jobs"][0]["workers"].pop(), _share(content, 0, 80)

    assert len(check(edited(choose(MEASURED, "allreduce"), tmp_path, leave), MEASURED).workers) == 3


def test_a_group_whose_update_is_more_than_an_epoch_is_no_mistake():
    measured = profile({"a": [10.0], "b": [10.0]}, 128, epoch=20, micro_batch=None)
    made = choose(measured, "hybrid")
    assert check(made, measured) == made


@pytest.mark.parametrize("name", ["../../out", "a b", "x" * 200, ""])
def test_a_jobs_name_can_be_a_files(name, tmp_path):
    with pytest.raises(ConfigError, match=r"jobs\.0\.name"):
        edited(choose(MEASURED, "hybrid"), tmp_path, lambda content: content["jobs"][0].update(name=name))


def test_a_profiles_table_is_in_order_and_its_spread_can_be():
    content = profile(MIXED, 128).model_dump(mode="json")
    table = [{"samples": 16, "seconds": 0.1}, {"samples": 4, "seconds": 0.2}]
    for values, said in (({"table": table}, "each size once, in order"), ({"spread": 1e6}, "less than or equal to 10")):
        content["devices"][0] |= {"table": [], "spread": 0.0, **values}
        with pytest.raises(ConfigError, match=said):
            type(MEASURED).parse(content, "profile.json")


def test_a_rule_for_gradients_is_refused_where_local_steps_are_pushed(tmp_path):
    wrong = edited(choose(MEASURED, "hybrid"), tmp_path, lambda c: c.update(rule="adam"))
    with pytest.raises(ConfigError, match="rule adam is for gradients; expected one for what local"):
        check(wrong, MEASURED)


@pytest.mark.parametrize(("strategy", "staleness"), [("server_sync", 0), ("server_async", 3)])
def test_baselines_are_planned_when_asked_for_and_offered_to_nobody(strategy, staleness):
    made = choose(MEASURED, strategy)
    assert [len(job.workers) for job in made.jobs] == [1, 1, 1, 1]
    assert (made.predicted_staleness, made.rule) == (staleness, "momentum")
    assert check(made, MEASURED).jobs == made.jobs
    others = [other.strategy for other in choose(MEASURED, "auto").alternatives]
    assert not any(other.startswith("server") for other in others)
