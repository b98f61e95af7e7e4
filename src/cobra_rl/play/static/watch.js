// The panel Watch: an agent at its task, step by step or running.

import { ENVIRONMENTS } from "./play.js";
import { redrawStage, showMove } from "./stage.js";
import { app, ask, byId, newSeed, notice, on, option, rounded, setScene, sleep, emit } from "./state.js";

let running = false;
let steps = 0;
let maxSteps = 20;
const tally = { episodes: 0, solved: 0 };

function title(name) {
  if (name === "none") return "nobody";
  if (name === "taught") return "the one you teach";
  const [kind, which] = name.split(":");
  return kind === "shipped" ? ENVIRONMENTS[which] ?? which : `${which} (saved)`;
}

export function listAgents(names) {
  const select = byId("watch-agent");
  select.replaceChildren();
  const all = ["none", ...(app.lesson ? ["taught"] : []), ...names];
  for (const name of all) option(select, name, title(name));
  app.agents = names;
  select.value = all.includes(app.agent) ? app.agent : "none";
}

export async function chooseAgent(name, mode = byId("watch-mode").value) {
  const answer = await ask("agent", { name, mode }, "loading the agent …");
  if (!answer) return void (byId("watch-agent").value = app.agent);
  adopt(answer);
}

// Take over what the session says of the agent that is chosen now.
export function adopt(answer) {
  app.agent = answer.name;
  maxSteps = answer.max_steps;
  Object.assign(tally, { episodes: 0, solved: 0 });
  steps = 0;
  listAgents(app.agents ?? []);
  setScene(answer.scene);
  emit("agent");
  showStatus();
}

function showStatus() {
  if (app.agent === "none") return void (byId("watch-text").textContent = "Choose an agent.");
  const past = tally.episodes ? ` ${tally.solved} of ${tally.episodes} episodes solved.` : "";
  byId("watch-text").textContent = `Step ${steps} of at most ${maxSteps}; reward ${rounded(app.scene.reward)}, it expected ${rounded(app.scene.expected_reward)}.${past}`;
}

async function stepOnce() {
  if (app.agent === "none") return void notice("Choose an agent first.");
  const answer = await ask("act", {}, "planning …");
  if (!answer) return false;
  steps += 1;
  await showMove(answer, Math.min(700, Number(byId("watch-pace").value)), byId("show-plan").checked);
  showStatus();
  const over = answer.scene.success || steps >= maxSteps;
  if (over) {
    tally.episodes += 1;
    tally.solved += answer.scene.success;
    showStatus();
    await sleep(running ? 900 : 0);
    if (running) await nextEpisode();
  }
  return true;
}

async function nextEpisode() {
  steps = 0;
  const answer = await ask("fresh", { seed: newSeed() });
  if (answer) setScene(answer);
}

export async function run(on = !running) {
  if (running === on) return;
  running = on;
  byId("watch-run").textContent = running ? "Stop" : "Run";
  byId("watch-run").setAttribute("aria-pressed", running);
  while (running && (await stepOnce())) await sleep(Number(byId("watch-pace").value));
  running = false;
  byId("watch-run").textContent = "Run";
  byId("watch-run").setAttribute("aria-pressed", false);
}

byId("watch-agent").onchange = (event) => { run(false); chooseAgent(event.target.value); };
byId("watch-mode").onchange = () => { if (app.agent.includes(":")) chooseAgent(app.agent); };
byId("watch-step").onclick = () => { if (!running) stepOnce(); };
byId("watch-run").onclick = () => run();
byId("show-goals").onchange = (event) => { app.goalsShown = event.target.checked; redrawStage(); };
on("ready", () => listAgents(app.known.agents));
on("tab", () => { if (app.tab !== "watch" && app.tab !== "look") run(false); });
