// The scene: drawn, dragged by pointer or keys, and beside it what the agent imagines.

import { drawArrow, drawGoal, drawProposals, drawRing, drawSprites, mapPixels, maskPixels, outlineSprite, paint, prepare, REACH,
  spritePath } from "./draw.js";
import { aimedAt, ringOf, showImagined, showOutcome, showSeen } from "./imagined.js";
import { latest } from "./net.js";
import { announce, app, ask, byId, newSeed, on, rounded, setScene, sleep, emit } from "./state.js";

const canvas = byId("stage");
let drag = null; // { from: [x, y], to: [x, y], sprite, goal, keys }
let shown = null; // an agent's move, drawn instead of the scene: { sprites, action, plan }
let frame = 0;

const clamp = (value, low = 0, high = 1) => Math.min(Math.max(value, low), high);
const placing = () => document.querySelector("input[name=drag]:checked").value === "place";

export function redrawStage() {
  cancelAnimationFrame(frame);
  frame = requestAnimationFrame(drawStage);
}

function drawStage() {
  if (!app.scene) return;
  const { context, side } = prepare(canvas);
  const sprites = shown?.sprites ?? app.scene.sprites;
  drawSprites(context, side, sprites);
  drawLayers(context, side);
  if (app.goalsShown || app.tab === "teach") drawGoals(context, side);
  if (document.activeElement === canvas || app.tab === "play" || app.layer === "reward_map") {
    const sprite = sprites[app.selected];
    if (sprite && !shown) outlineSprite(context, side, drag?.sprite >= 0 && placing() ? moved() : sprite);
  }
  if (shown?.plan) drawProposals(context, side, shown.plan.actions, shown.plan.scores);
  if (shown?.action) drawArrow(context, side, shown.action);
  if (app.ring?.noise && !drag) drawRing(context, side, app.ring);
  if (drag && !placing() && drag.goal === undefined) drawPush(context, side);
  if (drag && placing() && drag.sprite >= 0) outlineSprite(context, side, moved(), true);
}

function drawLayers(context, side) {
  const layer = app.layers?.[app.layer];
  if (layer && app.layer === "masks") paint(context, side, maskPixels(layer, app.known.size, app.known.slots, app.slot ?? -1, app.background), app.known.size);
  else if (layer) paint(context, side, mapPixels(layer.values, 185), layer.side);
  if (layer && app.layer !== "masks") for (const sprite of app.scene.sprites) outlineSprite(context, side, sprite, true);
  if (app.proposals) drawProposals(context, side, app.proposals.actions, app.proposals.scores);
}

function drawGoals(context, side) {
  if (app.tab === "teach" && app.way === "goal") {
    app.parts.filter((part) => part.kind === "goal").forEach((part) => {
      const words = [part.colour, part.shapes[0]].filter((word) => word && word !== "any").join(" ");
      drawGoal(context, side, [part.x, part.y, 0.075, [255, 255, 255]], words || "all");
    });
  } else for (const goal of app.scene.goals) drawGoal(context, side, goal);
}

// The push that the drag stands for, as an action in [0, 1]^4.
function action() {
  const motion = [0, 1].map((i) => clamp((drag.to[i] - drag.from[i]) / (2 * REACH) + 0.5));
  return [...drag.from, ...motion];
}

function moved() {
  const sprite = app.scene.sprites[drag.sprite];
  const [dx, dy] = [0, 1].map((i) => drag.to[i] - drag.from[i]);
  return { ...sprite, x: clamp(sprite.x + dx), y: clamp(sprite.y + dy) };
}

function drawPush(context, side) {
  const [x, y] = drag.from;
  context.lineWidth = side / 300;
  context.strokeStyle = "rgba(255, 255, 255, 0.45)";
  context.setLineDash([side / 90, side / 90]);
  context.strokeRect((x - REACH) * side, (1 - y - REACH) * side, 2 * REACH * side, 2 * REACH * side);
  context.setLineDash([]);
  const push = action();
  const sprite = app.scene.sprites[drag.sprite];
  if (sprite) {
    const aim = aimedAt(sprite, push, app.scene.noise);
    if (aim.noise) drawRing(context, side, aim);
    outlineSprite(context, side, { ...sprite, x: aim.x, y: aim.y }, true);
  }
  drawArrow(context, side, push);
}

const imagine = latest(async ({ push, since }) => {
  const answer = await ask("imagine", { action: push });
  if (!answer || !drag) return;
  const sprite = app.scene.sprites[drag.sprite];
  showImagined(answer, "if you let go now", sprite && aimedAt(sprite, push, app.scene.noise));
  requestAnimationFrame(() => app.latencies.push(performance.now() - since));
});

export async function push(given) {
  const answer = await ask("push", { action: given });
  if (!answer) return;
  setScene(answer.scene);
  showOutcome(answer);
  announce(answer.moved < 0 ? "Nothing moved." : `Moved. Expected error ${rounded(answer.error, 0)}, true error ${rounded(answer.true_error, 0)}.`);
}

// Show an agent's move: first what it does and, with `plan`, what it considered; then what came of it.
export async function showMove(answer, pause = 350, plan = false) {
  shown = { sprites: answer.before, action: answer.action, plan: plan && answer.scores ? answer : null };
  redrawStage();
  showImagined(answer, "what it imagines", ringOf(answer));
  await sleep(pause);
  shown = null;
  setScene(answer.scene);
  showOutcome(answer);
}

export const arrange = latest(async (sprites) => {
  const answer = await ask("arrange", { sprites });
  if (answer) setScene(answer);
});

function place(event) {
  const box = canvas.getBoundingClientRect();
  return [clamp((event.clientX - box.left) / box.width), clamp(1 - (event.clientY - box.top) / box.height)];
}

function spriteAt([x, y]) {
  const context = canvas.getContext("2d");
  const side = canvas.width;
  for (let n = app.scene.sprites.length - 1; n >= 0; n--) {
    if (context.isPointInPath(spritePath(app.scene.sprites[n], side), x * side, (1 - y) * side)) return n;
  }
  return -1;
}

function goalAt([x, y]) {
  if (app.tab !== "teach" || app.way !== "goal") return undefined;
  const found = app.parts.findIndex((part) => part.kind === "goal" && Math.hypot(part.x - x, part.y - y) < 0.075);
  return found < 0 ? undefined : found;
}

canvas.addEventListener("pointerdown", (event) => {
  if (!app.live || !app.scene || event.button > 0) return;
  canvas.setPointerCapture(event.pointerId);
  canvas.focus({ preventScroll: true });
  const from = place(event);
  const sprite = spriteAt(from);
  drag = { from, to: from, sprite, goal: sprite < 0 ? goalAt(from) : undefined };
  if (sprite >= 0) select(sprite);
  event.preventDefault();
});

canvas.addEventListener("pointermove", (event) => {
  if (!drag || drag.keys) return;
  drag.to = place(event);
  if (drag.goal !== undefined) {
    [app.parts[drag.goal].x, app.parts[drag.goal].y] = drag.to;
    emit("parts");
  } else if (!placing()) imagine({ push: action(), since: performance.now() });
  redrawStage();
});

canvas.addEventListener("pointerup", () => {
  if (!drag || drag.keys) return;
  const far = Math.hypot(drag.to[0] - drag.from[0], drag.to[1] - drag.from[1]) > 0.012;
  if (far && drag.goal === undefined) release();
  drag = null;
  redrawStage();
});
canvas.addEventListener("pointercancel", () => { drag = null; redrawStage(); });

function release() {
  if (!placing()) push(action());
  else if (drag.sprite >= 0) arrange(app.scene.sprites.map((sprite, n) => (n === drag.sprite ? moved() : sprite)));
}

export function select(n) {
  app.selected = n;
  emit("selected", n);
  redrawStage();
}

function aim(dx, dy) {
  const sprite = app.scene.sprites[app.selected];
  if (!sprite) return;
  drag ??= { from: [sprite.x, sprite.y], to: [sprite.x, sprite.y], sprite: app.selected, keys: true };
  const most = placing() ? 1 : REACH;
  drag.to = [clamp(drag.to[0] + dx, drag.from[0] - most, drag.from[0] + most), clamp(drag.to[1] + dy, drag.from[1] - most, drag.from[1] + most)];
  if (!placing()) imagine({ push: action(), since: performance.now() });
  redrawStage();
}

const KEYS = {
  ArrowLeft: () => aim(-0.025, 0), ArrowRight: () => aim(0.025, 0), ArrowUp: () => aim(0, 0.025), ArrowDown: () => aim(0, -0.025),
  Enter: () => { if (drag) release(); drag = null; },
  Escape: () => { drag = null; },
  ",": () => choose(-1), ".": () => choose(1), n: () => byId("fresh").click(), u: () => byId("undo").click(),
  Delete: () => byId("sprite-remove").click(),
};

function choose(step) {
  drag = null;
  const count = app.scene.sprites.length;
  select((app.selected + step + count) % count);
  const { shape, x, y } = app.scene.sprites[app.selected];
  announce(`Sprite ${app.selected + 1} of ${count}: ${shape.replace("_", " ")} at ${Math.round(100 * x)}, ${Math.round(100 * y)}.`);
}

canvas.addEventListener("keydown", (event) => {
  const key = KEYS[event.key] ?? KEYS[event.key.toLowerCase()];
  if (!key || !app.live || !app.scene || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  key();
  redrawStage();
});
for (const event of ["focus", "blur"]) canvas.addEventListener(event, () => { if (drag?.keys) drag = null; redrawStage(); });

const simple = (type) => async () => { const answer = await ask(type); if (answer) setScene(answer); };
byId("undo").onclick = simple("undo");
byId("reset").onclick = simple("reset");
byId("fresh").onclick = async () => {
  const answer = await ask("fresh", { seed: newSeed() });
  if (answer) setScene(answer);
};

on("scene", (scene) => {
  redrawStage();
  if (!drag) showSeen(scene);
  byId("undo").disabled = !scene.undo;
  byId("reward").textContent = scene.success ? `${rounded(scene.reward)}, solved` : rounded(scene.reward);
  byId("reward-row").hidden = scene.reward === null;
  byId("expected-reward").textContent = rounded(scene.expected_reward);
  byId("expected-reward-row").hidden = scene.expected_reward === null;
});
new ResizeObserver(redrawStage).observe(canvas);

export function showHint() {
  byId("stage-hint").textContent = placing() ? "drag a sprite to place it" : "drag a sprite to push it";
}
for (const input of document.querySelectorAll("input[name=drag]")) {
  input.onchange = showHint;
}
