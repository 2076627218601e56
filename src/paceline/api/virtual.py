"""Training in virtual time."""

from __future__ import annotations

from paceline.api.foreseeing import simulate
from paceline.launchers.recipe import Recipe
from paceline.schema.plan import Plan
from paceline.schema.profile import Profile
from paceline.schema.trace import Trace
from paceline.simulating.scenario import Scenario


def train_virtually(
    profile: Profile,
    made: Plan,
    recipe: Recipe,
    *,
    scenario: Scenario = Scenario(),  # noqa: B008  frozen
) -> Trace:
    """Train ``recipe`` in this process as ``made`` would on its devices, at the times that simulating it predicts.

    The recipe says how many epochs of how many samples. The same call gives the same trace, bit for bit.

    Raises:
        ConfigError: the recipe is missing, does not fit the plan, or asks for what there is not in virtual time.
        WorkerError: the recipe raised, ended early or trained nothing.
    """
    from paceline.running.virtual import driver  # torch
    from paceline.running.virtual.schedule import Course

    def foresee(size: int, epochs: int) -> Trace:
        return simulate(profile.model_copy(update={"epoch_samples": size}), made, epochs=epochs, scenario=scenario)

    recipe.check()
    return driver.train(made, recipe, Course(made, foresee))
