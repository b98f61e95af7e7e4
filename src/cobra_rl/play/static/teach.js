// The panel Teach: put a task together, start, judge, and see how learning gets on.

import { drawArrow, drawCurve, drawSprites, prepare } from "./draw.js";
import { say } from "./keep.js";
import { COLOURS, shapeName } from "./play.js";
import { arrange, redrawStage, showHint, showMove } from "./stage.js";
import { announce, app, ask, byId, newSeed, on, option, rounded, setRest, setScene, emit } from "./state.js";
import { adopt, chooseAgent, perform, run } from "./watch.js";

const WAYS = {
  goal: "Say what is wanted and where; the agent practises by itself and is rewarded for coming closer. Drag a goal to move it.",
  hand: "The agent acts; after each of its actions you say how good the scene is, from 1 to 5. It takes about a hundred judgements.",
  showing: "Arrange scenes (dragging places sprites) and say of each whether it is good or bad. A dozen of each are a beginning.",
};
const EXAMPLE = [["square", 0.95, 0.7, 0.3], ["circle", 0.6, 0.4, 0.35], ["triangle", 0.32, 0.75, 0.75]];
app.way = "goal";
const SHOWN = 3; // episodes in which it shows what it has learnt
const WINDOW = 30; // episodes, of which 27 must succeed
let kept = { way: "", curve: [] }; // of the agent that was kept to compare with
let pace = { time: 0, count: 0, rate: 0 };
let awaiting = false; // a judgement is due

// Putting a task together

function field(text, control) {
  const label = document.createElement("label");
  label.append(text, " ", control);
  return label;
}

function chooser(entries, value, change) {
  const select = document.createElement("select");
  for (const [name, text] of entries) option(select, name, text);
  select.value = value;
  select.onchange = () => { change(select.value); emit("parts"); };
  return select;
}

function numeric(part, axis) {
  const input = Object.assign(document.createElement("input"), { type: "number", min: 0, max: 1, step: 0.05, value: part[axis].toFixed(2) });
  input.onchange = () => { part[axis] = Math.max(0, Math.min(1, Number(input.value) || 0)); emit("parts"); };
  return input;
}

const colours = (any) => [...(any ? [["any", "any colour"]] : []), ...Object.keys(COLOURS).map((name) => [name, name])];
const shapes = () => [["", "any shape"], ...Object.keys(app.known?.outlines ?? {}).map((name) => [name, shapeName(name)])];

function partRow(part, index) {
  const row = document.createElement("fieldset");
  row.append(Object.assign(document.createElement("legend"), { textContent: { goal: "Goal", alike: "Like to like", apart: "Keep apart" }[part.kind] }));
  const line = Object.assign(document.createElement("div"), { className: "row" });
  if (part.kind === "alike") {
    line.append(field("One", chooser(colours(false), part.colour, (value) => { part.colour = value; })),
      field("Other", chooser(colours(false), part.other, (value) => { part.other = value; })));
  } else {
    line.append(field("Shape", chooser(shapes(), part.shapes[0] ?? "", (value) => { part.shapes = value ? [value] : []; })),
      field("Colour", chooser(colours(true), part.colour, (value) => { part.colour = value; })));
  }
  if (part.kind === "goal") line.append(field("Right", numeric(part, "x")), field("Up", numeric(part, "y")));
  const remove = Object.assign(document.createElement("button"), { type: "button", className: "quiet", textContent: "Remove" });
  remove.setAttribute("aria-label", `Remove rule ${index + 1}`);
  remove.onclick = () => { app.parts.splice(index, 1); emit("parts"); };
  line.append(remove);
  row.append(line);
  return row;
}

on("parts", () => {
  byId("parts").replaceChildren(...app.parts.map(partRow));
  redrawStage();
});

function add(kind, rest = {}) {
  if (app.parts.length >= 8) return;
  app.parts.push({ kind, x: 0.5, y: 0.5, shapes: [], colour: "any", other: "any", ...rest });
  emit("parts");
}
byId("part-goal").onclick = () => add("goal", { x: 0.25 + 0.5 * (app.parts.length % 2), y: 0.75 });
byId("part-alike").onclick = () => add("alike", { colour: "blue", other: "green" });
byId("part-apart").onclick = () => add("apart");
byId("part-example").onclick = async () => {
  app.parts = [];
  add("goal", { x: 0.25, y: 0.75, shapes: ["square"] });
  byId("practice").value = "canvas";
  await arrange(EXAMPLE.map(([shape, c0, x, y]) => ({ x, y, shape, angle: 0, scale: 0.13, c0, c1: 0.9, c2: 1 })));
};

function setWay(way) {
  app.way = way;
  byId("way-text").textContent = WAYS[way];
  byId("goal-fields").hidden = way !== "goal";
  if (way === "showing") document.querySelector("input[name=drag][value=place]").click();
  redrawStage();
}
for (const input of document.querySelectorAll("input[name=way]")) input.onchange = () => setWay(input.value);
setWay("goal");

// The lesson

byId("teach-start").onclick = async () => {
  const fields = { way: app.way, practice: byId("practice").value, parts: app.parts, resume: byId("resume").checked };
  await start("teach", fields);
};

// Begin a lesson. It is not ready before its first steps are compiled, which is after the session has answered.
async function start(type, fields = {}) {
  run(false);
  if ((fields.way ?? app.lesson?.way) === "goal") setRest("getting ready to learn: its first steps are compiled …", "learning");
  const answer = await ask(type, fields, "getting ready to learn …");
  if (answer) begin(answer);
  else if (app.live) setRest("ready");
  return answer;
}

function begin(answer) {
  app.lesson = { way: answer.way, on: true, learnt: false };
  app.learned = null;
  pace = { time: performance.now(), count: 0, rate: 0 };
  awaiting = answer.way === "showing";
  if (answer.way !== "goal") setRest("ready");
  adopt(answer);
  byId("lesson").hidden = false;
  byId("judge").hidden = answer.way === "goal";
  byId("judge-hand").hidden = answer.way !== "hand";
  byId("judge-fresh").hidden = answer.way !== "showing";
  byId("judge-slider").hidden = byId("judge-say").hidden = answer.way !== "hand";
  byId("trying-figure").hidden = byId("lesson-pause").hidden = answer.way !== "goal";
  byId("judge-text").textContent = answer.way === "hand" ? "Let it act, then say how good the scene is." : "Arrange the scene, then say: good or bad?";
  byId("curve-caption").textContent = answer.way === "goal" ? "success of its last 30 episodes" : "your judgements";
  byId("lesson-text").textContent = answer.way === "goal" ? "Getting ready to learn: its first steps are compiled …" : "";
  byId("learnt").hidden = true;
  byId("lesson-pause").textContent = "Pause";
  byId("comparison").replaceChildren();
  say("");
  byId("source").hidden = true;
  showCurve([]);
  enableJudging();
  if (answer.way !== "goal" && matchMedia("(max-width: 60rem)").matches) byId("stage-figure").scrollIntoView();
  else byId("lesson").scrollIntoView({ block: "nearest" });
}

function showCurve(points) {
  const { way } = app.lesson;
  drawCurve(byId("curve"), points, way === "goal" ? [0, 1] : [1, 5], way === kept.way ? kept.curve : [], way === "goal" ? 0.9 : null);
}

let lastMap = 0;
export function showProgress(progress) {
  if (!app.lesson) return;
  const goal = progress.way === "goal";
  Object.assign(app.lesson, { on: progress.on, curve: progress.curve });
  byId("lesson-pause").textContent = progress.on ? "Pause" : "Go on";
  showCurve(progress.curve);
  byId("expected-reward").textContent = rounded(progress.expected_reward);
  byId("expected-reward-row").hidden = progress.expected_reward === null;
  if (goal) showTrying(progress);
  else byId("lesson-text").textContent = `${progress.count} judgement${progress.count === 1 ? "" : "s"}. Of the scene above it thinks: ${rounded(Math.max(1, Math.min(5, progress.judgement)))} of 5.`;
  if (performance.now() - lastMap > 1200) {
    lastMap = performance.now();
    emit("learnt");
  }
}

function showTrying(progress) {
  const { context, side } = prepare(byId("trying"));
  drawSprites(context, side, progress.trying);
  if (progress.action) drawArrow(context, side, progress.action);
  const now = performance.now();
  if (now - pace.time > 1000) pace = { time: now, count: progress.count, rate: (1000 * Math.max(0, progress.count - pace.count)) / (now - pace.time) };
  app.learned = progress;
  const rate = progress.on && pace.rate ? `, ${rounded(pace.rate, 0)} a second` : "";
  byId("lesson-text").textContent = `${progress.count} rewarded steps${rate}; ${progress.episodes} episodes, ${Math.round(100 * progress.recent)} % of the last ${WINDOW} solved.`;
  if (progress.on) setRest(`learning: ${Math.round(100 * progress.recent)} % solved`, "learning");
  else setRest(progress.learnt_at === null ? "paused" : "learnt");
  if (progress.learnt_at !== null && !app.lesson.learnt) showLearnt(progress);
}

// It has stopped by itself: say so, and let it show what it has learnt.
async function showLearnt(progress) {
  const { lesson } = app;
  lesson.learnt = true;
  const learnt = `Learnt: it solved ${Math.round(WINDOW * progress.recent)} of its last ${WINDOW} episodes, after ${progress.learnt_at} rewarded steps.`;
  const tell = (text) => { if (app.lesson === lesson) byId("learnt").textContent = `${learnt} ${text}`; };
  byId("learnt").hidden = false;
  tell("Press Let it show to see it play.");
  announce(learnt);
  if (app.tab !== "teach" || !(app.agent === "taught" || (await chooseAgent("taught", "train")))) return;
  byId("stage-figure").scrollIntoView({ block: "nearest" });
  tell(`Now it shows you, in ${SHOWN} new scenes.`);
  byId("stage-hint").textContent = "learnt: it shows what it can do now";
  const { episodes, solved } = await perform(SHOWN);
  showHint();
  lesson.shown = { episodes, solved };
  if (episodes) tell(`It has shown you ${episodes} new scene${episodes === 1 ? "" : "s"}, and solved ${solved}.`);
}

byId("lesson-pause").onclick = async () => {
  run(false);
  const progress = await ask("learn", { on: !app.lesson.on });
  if (progress) showProgress(progress);
};
byId("lesson-forget").onclick = () => start("forget");
byId("lesson-keep").onclick = async () => {
  const aside = { way: app.lesson.way, curve: app.lesson.curve ?? [] };
  const before = kept;
  kept = aside;
  if (!(await start("keep"))) kept = before;
  else byId("lesson-compare").disabled = false;
};
byId("lesson-act").onclick = async () => {
  if (app.lesson.way === "goal" && app.lesson.on) byId("lesson-pause").click();
  run(false);
  if (!(await chooseAgent("taught", "train"))) return;
  byId("tab-watch").click();
  run(true);
};
byId("lesson-compare").onclick = async () => {
  const answer = await ask("compare", {}, "both play 16 scenes …");
  if (!answer) return;
  const table = document.createElement("table");
  const head = ["", "the kept one", "this one"];
  const rows = [["learnt from", answer.kept.count, answer.taught.count]];
  if (answer.kept.success !== undefined) rows.push(["success in 16 scenes", ...[answer.kept, answer.taught].map((one) => `${Math.round(100 * one.success)} %`)]);
  rows.push(["thinks of this scene", rounded(answer.kept.expected_reward), rounded(answer.taught.expected_reward)]);
  for (const [cells, tag] of [[head, "th"], ...rows.map((row) => [row, "td"])]) {
    const line = table.insertRow();
    for (const cell of cells) line.append(Object.assign(document.createElement(tag), { textContent: cell }));
  }
  byId("comparison").replaceChildren(table);
};

// Judging

function enableJudging() {
  for (const id of ["judge-bad", "judge-good", "judge-say", "judge-range"]) byId(id).disabled = !awaiting;
  byId("judge-try").disabled = awaiting;
}

async function letItAct() {
  if (awaiting || app.lesson?.way !== "hand") return;
  const answer = await ask("try", {}, "it thinks …");
  if (!answer) return;
  await showMove(answer, 300);
  awaiting = true;
  enableJudging();
  byId("judge-text").textContent = "It has acted. Your turn.";
}

async function judge(value) {
  if (!awaiting) return;
  awaiting = app.lesson.way === "showing";
  enableJudging();
  const progress = await ask("judge", { value }, "learning …");
  if (!progress) return;
  showProgress(progress);
  setScene(progress.scene);
  announce(`Judged ${rounded(value)}.`);
  byId("judge-text").textContent = app.lesson.way === "hand" ? "" : "Noted. Arrange another scene.";
  if (app.lesson.way === "hand") letItAct();
}
byId("judge-try").onclick = letItAct;
byId("judge-say").onclick = () => judge(Number(byId("judge-range").value));
byId("judge-good").onclick = () => judge(5);
byId("judge-bad").onclick = () => judge(1);
byId("judge-range").oninput = (event) => { byId("judge-value").textContent = event.target.value; };
byId("judge-fresh").onclick = async () => { const answer = await ask("fresh", { seed: newSeed() }); if (answer) setScene(answer); };
document.addEventListener("keydown", (event) => {
  if (app.tab !== "teach" || !app.lesson || app.lesson.way === "goal" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input:not([type=range]), select, textarea")) return;
  if ("12345".includes(event.key)) judge(Number(event.key));
  else if (event.key === " " && !event.target.matches("button, [role=tab], input")) { event.preventDefault(); letItAct(); }
});

on("progress", showProgress);
