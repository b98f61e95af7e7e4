"""What one page's session does: a stage, an agent to look into, watch and teach. No web in here.

`handle` answers a message that `protocol.read` let through; `tick` learns for a moment, whenever nothing is asked for.
"""

import dataclasses
import time
from collections.abc import Iterator

from cobra_rl.models.reward import Reward
from cobra_rl.play import inspection
from cobra_rl.play.catalogue import AgentCatalogue, LoadedAgent
from cobra_rl.play.stage import Answer, SceneStage, factors_of
from cobra_rl.play.teach import GoalLearner, JudgedLearner, judgement_of, task_spec, thinned
from cobra_rl.spriteworld import EnvSpec, NoReward
from cobra_rl.spriteworld.sprites import SHAPES, VERTICES

PROGRESS_EVERY = 0.15  # seconds between two messages about learning


class Session:
    """A stage, an agent or none, and something to learn or nothing."""

    def __init__(self, catalogue: AgentCatalogue):
        self.catalogue = catalogue
        self.agent = "none"
        self.learner: GoalLearner | JudgedLearner | None = None
        self.kept: GoalLearner | JudgedLearner | None = None  # put aside, to compare with
        self.way = "goal"  # of teaching
        self.learning = False
        self._lessons = 0
        self._last_progress = 0.0  # when the page was last told of it
        self._loaded: LoadedAgent | None = None
        self.stage = SceneStage(catalogue.world, self.current_agent)

    @property
    def busy(self) -> bool:
        """Whether `tick` has something to do."""
        return self.learning and isinstance(self.learner, GoalLearner)

    def tick(self) -> Answer | None:
        """Learn for a moment; return what there is to tell of it, now and then."""
        assert isinstance(self.learner, GoalLearner)
        has_learnt = self.learner.learnt_at is not None
        self.learner.advance()
        if self.learner.learnt_at is not None and not has_learnt:
            self.learning = False  # until somebody wants it to go on
        elif time.monotonic() - self._last_progress < PROGRESS_EVERY:
            return None
        self._last_progress = time.monotonic()
        return self.progress()

    def handle(self, message: Answer) -> Answer:
        """Answer a message; raise a ValueError that says why it cannot be done."""
        arguments = {name: value for name, value in message.items() if name not in ("type", "id")}
        handler = f"on_{message['type']}"
        return getattr(self if hasattr(self, handler) else self.stage, handler)(**arguments)

    def hello(self) -> Answer:
        """Tell what the page has to know once."""
        world = self.catalogue.world
        return {
            "type": "ready",
            "slots": world.sizes.slots,
            "size": world.sizes.image,
            "latents": world.vision.latent_names,
            "outlines": {name: VERTICES[index].round(4).tolist() for index, name in enumerate(SHAPES)},
            "agents": list(self.catalogue.agents()),
            "scene": self.stage.scene(),
        }

    def prepare(self) -> Iterator[str]:
        """Compile what every page needs, and say before each part what it is."""
        action = [0.5, 0.5, 0.9, 0.5]
        parts = {
            "looking at a scene": lambda: self.stage.scene(),
            "imagining a push": lambda: self.stage.on_imagine(action),
            "pushing a sprite": lambda: (self.stage.on_push(action), self.stage.on_undo()),
            "taking a scene apart": lambda: self.on_look(),
            "redrawing a slot": lambda: self.stage.on_redraw(0, self.stage.slots[0].tolist()),
            "being curious": lambda: (self.stage.on_curiosity(), self.stage.on_proposals()),
        }
        for name, part in parts.items():
            yield name
            part()

    def on_agent(self, name: str, mode: str) -> Answer:
        """Choose the agent that is looked into and acts; it brings its environment along."""
        if name == "taught":
            self.stage.env = self._required_learner().env
        self._loaded = None if name in ("none", "taught") else self.catalogue.load(name, mode)
        self.agent = name
        if self._loaded is not None:
            self.stage.enter(self._loaded.env, seed=0)
        return {"type": "agent", "name": name, "max_steps": self.stage.env.max_steps, "scene": self.stage.scene()}

    def on_look(self) -> Answer:
        """Tell what the agent sees, and from where to where its latents go."""
        return self.stage.on_look() | {"ranges": self.catalogue.latent_ranges}

    def on_act(self) -> Answer:
        """Let the agent do what it thinks best, and tell what it considered."""
        action, considered = self.stage.plan()
        return self.stage.on_push(action) | considered | {"type": "acted"}

    def on_teach(self, *, way: str, practice: str, parts: list[Answer], resume: bool) -> Answer:
        """Begin to teach a fresh agent, or with `resume` the chosen one."""
        if way == "goal" and not parts:
            raise ValueError("Say first what is wanted: put a goal on the canvas, or add a rule.")
        wanted = parts if way == "goal" else []
        chosen = self.stage.suite_env.spec
        if not self.stage.noisy:
            chosen = dataclasses.replace(chosen, motion_noise=0.0)
        spec = task_spec(wanted, practice, self.stage.factors, chosen=chosen)
        head = self.stage.reward_head if resume else None
        return self._begin(way, spec, head and head.predictor)

    def on_forget(self) -> Answer:
        """Begin the same lesson with a fresh agent."""
        return self._begin(self.way, self._required_learner().spec)

    def on_keep(self) -> Answer:
        """Put the agent aside to compare with, and begin the same lesson with a fresh one."""
        self.kept = self._required_learner()
        return self.on_forget()

    def on_learn(self, on: bool) -> Answer:
        """Go on learning, or pause."""
        self.learning = on
        return self.progress()

    def on_try(self) -> Answer:
        """Let an agent that is taught by hand act, to be judged."""
        return self.stage.on_push(self._required_judged_learner().choose(self.stage.slots)) | {"type": "tried"}

    def on_judge(self, value: float) -> Answer:
        """Learn how good the present scene is; a fresh one follows if it is time."""
        learner = self._required_judged_learner()
        if learner.judge(self.stage.slots, value):
            self.stage.set_scene(factors_of(learner.fresh_scene().sprites), first=True)
        return self.progress() | {"type": "judged", "scene": self.stage.scene()}

    def on_compare(self) -> Answer:
        """Let the agent and the one put aside play the same scenes, and tell what each expects of the present one."""
        if self.kept is None:
            raise ValueError("There is no agent to compare with yet; keep one and teach another.")
        return {"type": "compared", "kept": self._summary(self.kept), "taught": self._summary(self._required_learner())}

    def on_save(self, name: str) -> Answer:
        """Save the agent as a run folder."""
        folder = self.catalogue.runs / name
        self._required_learner().save(folder, self.catalogue.world_folder)
        return {"type": "saved", "name": name, "folder": str(folder), "agents": list(self.catalogue.agents())}

    def on_source(self) -> Answer:
        """Write the task as Python, and how it is learnt."""
        return {"type": "source", "python": self._required_learner().python()}

    def progress(self) -> Answer:
        """Tell how learning gets on."""
        learner = self._required_learner()
        reward = self.stage.expected_reward(self.stage.slots)
        answer = {
            "type": "progress",
            "way": self.way,
            "on": self.learning,
            "count": learner.count,
            "curve": thinned(learner.curve),
            "expected_reward": reward,
            "judgement": None if reward is None else judgement_of(reward),
        }
        if not isinstance(learner, GoalLearner):
            return answer
        return answer | {
            "episodes": len(learner.successes),
            "recent": learner.recent_success,
            "learnt_at": learner.learnt_at,
            "action": learner.action,
            "trying": factors_of(learner.scene.sprites),
        }

    def current_agent(self) -> LoadedAgent | None:
        """Return the agent that is chosen, as it is now: one that is being taught changes with each step."""
        return self.learner.agent if self.learner and self.agent == "taught" else self._loaded

    def _summary(self, learner: GoalLearner | JudgedLearner) -> Answer:
        reward = float(inspection.expected_reward(learner.reward_head, self.stage.slots))
        scores = {} if isinstance(learner.spec.task, NoReward) else learner.scores(seed=7)
        return {"count": learner.count, "curve": thinned(learner.curve), "expected_reward": reward} | scores

    def _begin(self, way: str, spec: EnvSpec, predictor: Reward | None = None) -> Answer:
        self._lessons += 1
        learner = GoalLearner if way == "goal" else JudgedLearner
        self.learner = learner(self.catalogue.world, spec, self._lessons, predictor=predictor)
        self.way = way
        self.learning = True
        return self.on_agent("taught", "train") | {"type": "teaching", "way": way}

    def _required_learner(self) -> GoalLearner | JudgedLearner:
        """Return the agent that is being taught; raise a ValueError if there is none."""
        if self.learner is None:
            raise ValueError("Nothing is being taught yet.")
        return self.learner

    def _required_judged_learner(self) -> JudgedLearner:
        """Return the agent that is being taught by judgements; raise a ValueError if there is none."""
        if not isinstance(self.learner, JudgedLearner):
            raise ValueError("This agent is not taught by judgements.")
        return self.learner
