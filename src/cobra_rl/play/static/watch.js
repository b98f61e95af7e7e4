// The panel Watch: an agent at its task, step by step or running.

import { ENVIRONMENTS } from "./play.js";
import { redrawStage, showMove } from "./stage.js";
import { app, ask, byId, newSeed, notice, on, option, rounded, setScene, sleep, emit } from "./state.js";

let running = false;
let turns = 0; // how often it was started or stopped
let steps = 0;
let maxSteps = 20;
let wanted = null; // the agent that is being loaded
let limit = Infinity; // episodes after which it stops by itself
const tally = { episodes: 0, solved: 0 };

function title(name) {
  if (name === "none") return "nobody";
  if (name === "taught") return "the one you teach";
  const [kind, which] = name.split(":");
  if (kind !== "shipped") return which;
  return (ENVIRONMENTS[taskOf(which)] ?? which) + (which.endsWith(RELEASED) ? ", Spriteworld 1.0.2" : "");
}

const RELEASED = "-released"; // how agents end that learnt by the rules of the public Spriteworld package
const taskOf = (which) => (which.endsWith(RELEASED) ? which.slice(0, -RELEASED.length) : which);

function group(name) {
  if (!name.includes(":")) return "";
  if (name.startsWith("run:")) return "Your own";
  return name.endsWith(RELEASED) ? "By the rules of Spriteworld 1.0.2" : "By the paper's rules";
}

export function listAgents(names) {
  const select = byId("watch-agent");
  select.replaceChildren();
  const all = ["none", ...(app.lesson ? ["taught"] : []), ...names];
  const groups = { "": select };
  for (const name of all) {
    const label = group(name);
    if (!groups[label]) select.append((groups[label] = Object.assign(document.createElement("optgroup"), { label })));
    option(groups[label], name, title(name));
  }
  app.agents = names;
  showChosen();
}

// The menus show who acts, or who is being loaded; meanwhile nobody can be told to act.
function showChosen() {
  byId("watch-agent").value = wanted ?? app.agent;
  if (wanted === null) byId("watch-mode").value = app.mode;
  byId("watch-step").disabled = byId("watch-run").disabled = wanted !== null;
}

let choices = 0;
export async function chooseAgent(name, mode = byId("watch-mode").value) {
  const mine = ++choices;
  wanted = name;
  showChosen();
  const answer = await ask("agent", { name, mode }, `loading the agent for ${title(name)} …`);
  if (mine === choices) wanted = null; // else another was chosen meanwhile
  if (answer) {
    app.mode = mode;
    adopt(answer);
  }
  showChosen();
  return answer;
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
  if (wanted !== null) return false;
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
    if (tally.episodes >= limit) running = false;
    showStatus();
    emit("episode", { ...tally });
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
  const mine = ++turns;
  showRunning(on);
  while (running && mine === turns && (await stepOnce())) await sleep(Number(byId("watch-pace").value));
  if (mine === turns) showRunning(false);
}

function showRunning(on) {
  running = on;
  byId("watch-run").textContent = running ? "Stop" : "Run";
  byId("watch-run").setAttribute("aria-pressed", running);
}

// Let the chosen agent play some fresh episodes, unless something else is wanted meanwhile; tell how they went.
export async function perform(episodes) {
  run(false);
  Object.assign(tally, { episodes: 0, solved: 0 });
  limit = episodes;
  await nextEpisode();
  await run(true);
  limit = Infinity;
  return { ...tally };
}

byId("watch-agent").onchange = (event) => { run(false); chooseAgent(event.target.value); };
byId("watch-mode").onchange = () => { if (app.agent.includes(":")) chooseAgent(app.agent); };
byId("watch-step").onclick = () => { if (!running) stepOnce(); };
byId("watch-run").onclick = () => run();
byId("show-goals").onchange = (event) => { app.goalsShown = event.target.checked; redrawStage(); };
on("ready", () => listAgents(app.known.agents));
on("tab", () => {
  const shows = app.tab === "teach" && limit < Infinity;
  if (app.tab !== "watch" && app.tab !== "look" && !shows) run(false);
});
