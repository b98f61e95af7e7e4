"""What one page's session does: a stage, an agent to look into, watch and teach. No web in here.

`handle` answers a message that `protocol.read` let through; `tick` learns for a moment, whenever nothing is asked for.
"""

import time
from collections.abc import Iterator

from cobra_rl.models.reward import Reward
from cobra_rl.play import mind
from cobra_rl.play.house import Chosen, House
from cobra_rl.play.stage import Answer, Stage, factors_of
from cobra_rl.play.tasks import task_spec
from cobra_rl.play.teach import GoalLearner, JudgedLearner, judgement_of
from cobra_rl.spriteworld.source import python_source
from cobra_rl.spriteworld.sprites import SHAPES, VERTICES
from cobra_rl.spriteworld.suite import EnvSpec
from cobra_rl.spriteworld.tasks import NoReward

SAY_EVERY = 0.15  # seconds between two messages about learning


class Session:
    """A stage, an agent or none, and something to learn or nothing."""

    def __init__(self, house: House):
        self.house, self.agent = house, "none"
        self.learner: GoalLearner | JudgedLearner | None = None
        self.kept: GoalLearner | JudgedLearner | None = None
        self.way, self.learning, self._lessons, self._said = "goal", False, 0, 0.0
        self._loaded: Chosen | None = None
        self.stage = Stage(house.world, self.chosen)

    @property
    def busy(self) -> bool:
        """Whether `tick` has something to do."""
        return self.learning and isinstance(self.learner, GoalLearner)

    def tick(self) -> Answer | None:
        """Learn for a moment; now and then there is something to say of it."""
        assert isinstance(self.learner, GoalLearner)
        self.learner.advance()
        if time.monotonic() - self._said < SAY_EVERY:
            return None
        self._said = time.monotonic()
        return self.progress()

    def handle(self, message: Answer) -> Answer:
        """Answer a message; a ValueError says what was asked for in vain."""
        arguments = {name: value for name, value in message.items() if name not in ("type", "id")}
        handler = f"on_{message['type']}"
        return getattr(self if hasattr(self, handler) else self.stage, handler)(**arguments)

    def hello(self) -> Answer:
        """Say what the page has to know once."""
        sizes = self.house.world.sizes
        outlines = {name: VERTICES[index].round(4).tolist() for index, name in enumerate(SHAPES)}
        known = {"slots": sizes.slots, "size": sizes.image, "latents": self.house.world.vision.latent_names}
        known |= {"slider": mind.SLIDER, "outlines": outlines}
        return known | {"type": "ready", "agents": self.house.agents(), "scene": self.stage.scene()}

    def prepare(self) -> Iterator[str]:
        """Compile what every page needs, and say before each part what it is."""
        action = [0.5, 0.5, 0.9, 0.5]
        parts = {
            "looking at a scene": lambda: self.stage.scene(),
            "imagining a push": lambda: self.stage.on_imagine(action),
            "pushing a sprite": lambda: (self.stage.on_push(action), self.stage.on_undo()),
            "taking a scene apart": lambda: self.stage.on_look(),
            "redrawing a slot": lambda: self.stage.on_redraw(0, self.stage.slots[0].tolist()),
            "being curious": lambda: (self.stage.on_curiosity(), self.stage.on_proposals()),
        }
        for name, part in parts.items():
            yield name
            part()

    def on_agent(self, name: str, mode: str) -> Answer:
        """Choose the agent whose mind is shown and who acts; it brings its environment along."""
        loaded = None if name in ("none", "taught") else self.house.load(name, mode)
        if name == "taught":
            self.stage.env = self._lesson().env
        self.agent, self._loaded = name, loaded
        if loaded is not None:
            self.stage.enter(loaded.env, seed=0)
        return {"type": "agent", "name": name, "max_steps": self.stage.env.max_steps, "scene": self.stage.scene()}

    def on_act(self) -> Answer:
        """Let the agent do what it thinks best, and tell what it considered."""
        action, considered = self.stage.plan()
        return self.stage.on_push(action) | considered | {"type": "acted"}

    def on_teach(self, way: str, practice: str, parts: list[Answer], resume: bool) -> Answer:
        """Begin to teach a fresh agent, or with `resume` the chosen one."""
        if way == "goal" and not parts:
            raise ValueError("Say first what is wanted: put a goal on the canvas, or add a rule.")
        spec = task_spec(parts if way == "goal" else [], practice, self.stage.factors, self.stage.suite_env.spec)
        chosen = self.chosen() if resume else None
        return self._begin(way, spec, chosen.wish.predictor if chosen and chosen.wish else None)

    def on_forget(self) -> Answer:
        """Begin the same lesson with a fresh agent."""
        return self._begin(self.way, self._lesson().spec)

    def on_keep(self) -> Answer:
        """Put the agent aside to compare with, and begin the same lesson with a fresh one."""
        self.kept = self._lesson()
        return self.on_forget()

    def on_learn(self, on: bool) -> Answer:
        """Go on learning, or pause."""
        self._lesson()
        self.learning = on
        return self.progress()

    def on_try(self) -> Answer:
        """Let an agent that is taught by hand act, to be judged."""
        action = self._judged().choose(self.stage.slots)
        return self.stage.on_push(action) | {"type": "tried"}

    def on_judge(self, value: float) -> Answer:
        """Learn how good the present scene is; a fresh one follows if it is time."""
        learner = self._judged()
        if learner.judge(self.stage.slots, value):
            self.stage.set_scene(factors_of(learner.fresh().sprites), first=True)
        return self.progress() | {"type": "judged", "scene": self.stage.scene()}

    def on_compare(self) -> Answer:
        """Let the agent and the one put aside play the same scenes, and tell what each thinks of the present one."""
        if self.kept is None:
            raise ValueError("Put an agent aside first, to compare with.")
        rows = []
        for learner in (self.kept, self._lesson()):
            thinks = float(mind.expected(learner.wish, self.stage.slots))
            row = {"count": learner.count, "curve": learner.curve, "thinks": thinks}
            rows.append(row | ({} if isinstance(learner.spec.task, NoReward) else learner.scores(7)))
        return {"type": "compared", "kept": rows[0], "taught": rows[1]}

    def on_save(self, name: str) -> Answer:
        """Save the agent as a run folder."""
        self._lesson().save(self.house.runs / name, self.house.world_folder)
        return {"type": "saved", "name": name, "folder": str(self.house.runs / name), "agents": self.house.agents()}

    def on_source(self) -> Answer:
        """Tell the task as Python."""
        return {"type": "source", "python": python_source(self._lesson().spec)}

    def progress(self) -> Answer:
        """Tell how learning gets on."""
        learner = self._lesson()
        thinks = self.stage.thinks(self.stage.slots)
        told = {"type": "progress", "way": self.way, "on": self.learning, "count": learner.count, "thinks": thinks}
        told |= {"curve": learner.curve[-400:], "judgement": None if thinks is None else judgement_of(thinks)}
        if isinstance(learner, GoalLearner):
            told |= {"episodes": len(learner.successes), "recent": learner.recent, "action": learner.action}
            told |= {"trying": factors_of(learner.playing.env.sprites)}
        return told

    def chosen(self) -> Chosen | None:
        """Return the agent that is chosen, as it is now: one that is being taught changes with each step."""
        if self.agent == "taught" and self.learner is not None:
            learner = self.learner
            params = learner.cobra.params(self.house.world, learner.state)
            return Chosen(learner.env, self.house.world, learner.cobra.policy, params, learner.wish)
        return self._loaded

    def _begin(self, way: str, spec: EnvSpec, predictor: Reward | None = None) -> Answer:
        self._lessons += 1
        kind = GoalLearner if way == "goal" else JudgedLearner
        self.learner, self.way, self.learning = kind(self.house.world, spec, self._lessons, predictor), way, True
        return self.on_agent("taught", "train") | {"type": "teaching", "way": way}

    def _lesson(self) -> GoalLearner | JudgedLearner:
        if self.learner is None:
            raise ValueError("Nothing is being taught yet.")
        return self.learner

    def _judged(self) -> JudgedLearner:
        if not isinstance(self.learner, JudgedLearner):
            raise ValueError("This agent is not taught by judgements.")
        return self.learner
