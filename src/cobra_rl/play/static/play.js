// The panel Play: which environment, and sprites edited by hand.

import { arrange, redrawStage, select } from "./stage.js";
import { app, ask, byId, on, option, setScene } from "./state.js";

export const ENVIRONMENTS = {
  exploration: "exploration, 1 to 6 sprites", goal_finding_new_shape: "goal finding, new shape",
  goal_finding_new_position: "goal finding, new position", goal_finding_more_targets: "goal finding, more targets",
  goal_finding_more_distractors: "goal finding, more distractors", sorting: "sorting", clustering: "clustering",
};
export const COLOURS = { red: 0.95, yellow: 0.17, green: 0.32, blue: 0.6, purple: 0.78 };
const MOST = 6;
const FACTORS = ["c0", "c1", "scale", "angle", "x", "y"];

for (const [name, title] of Object.entries(ENVIRONMENTS)) option(byId("env-task"), name, title);
option(byId("sprite-colour"), "", "other");
for (const name of Object.keys(COLOURS)) option(byId("sprite-colour"), name, name);

// How far a sprite reaches from its middle, along an axis: to keep all of it in the frame.
function reach({ shape, scale, angle }) {
  const [c, s] = [Math.cos((angle * Math.PI) / 180), Math.sin((angle * Math.PI) / 180)];
  const points = app.known.outlines[shape].map(([x, y]) => [c * x - s * y, s * x + c * y]);
  return [0, 1].map((axis) => scale * Math.max(...points.map((point) => Math.abs(point[axis]))));
}

function inFrame(sprite) {
  const [right, up] = reach(sprite);
  return { ...sprite, x: Math.min(Math.max(sprite.x, right), 1 - right), y: Math.min(Math.max(sprite.y, up), 1 - up) };
}

export const shapeName = (shape) => shape.replace("_", " with ").replace("star with", "star,").replace("spoke with", "spokes,");

on("ready", () => {
  const shapes = byId("sprite-shape");
  shapes.replaceChildren();
  for (const shape of Object.keys(app.known.outlines)) option(shapes, shape, shapeName(shape));
});

byId("env-go").onclick = async () => {
  const seed = Math.max(0, Math.min(2 ** 31 - 1, Math.round(Number(byId("env-seed").value) || 0)));
  const fields = { task: byId("env-task").value, mode: byId("env-mode").value, variant: byId("env-variant").value, seed };
  const answer = await ask("scene", fields);
  if (answer) setScene(answer);
};

const colourOf = (hue) => Object.keys(COLOURS).find((name) => Math.abs(COLOURS[name] - hue) < 0.045) ?? "";
const plain = (sprite) => Object.fromEntries(["x", "y", "shape", "angle", "scale", "c0", "c1", "c2"].map((name) => [name, sprite[name]]));

function refresh() {
  if (!app.scene) return;
  const { sprites } = app.scene;
  const which = byId("sprite-which");
  which.replaceChildren();
  sprites.forEach((sprite, n) => option(which, n, `${n + 1}: ${[colourOf(sprite.c0), shapeName(sprite.shape)].join(" ").trim()}`));
  which.value = app.selected;
  const sprite = sprites[app.selected];
  if (!sprite) return;
  byId("sprite-shape").value = sprite.shape;
  byId("sprite-colour").value = colourOf(sprite.c0);
  reach(sprite).forEach((far, axis) => {
    const name = "xy"[axis]; // a sprite that was pushed to the edge is shown where it is
    Object.assign(byId(`sprite-${name}`), { min: Math.min(far, sprite[name]), max: Math.max(1 - far, sprite[name]) });
  });
  for (const name of FACTORS) {
    const input = byId(`sprite-${name}`);
    if (document.activeElement !== input) input.value = sprite[name];
  }
  byId("sprite-add").disabled = sprites.length >= MOST;
  byId("sprite-remove").disabled = sprites.length <= 1;
}
on("scene", refresh);
on("selected", refresh);

// Change the chosen sprite; it is drawn at once, and the session follows when a slider is let go.
export function change(factors, held = false) {
  const sprites = app.scene.sprites.map((sprite, n) => plain(n === app.selected ? inFrame({ ...sprite, ...factors }) : sprite));
  app.scene = { ...app.scene, sprites };
  redrawStage();
  if (!held) arrange(sprites);
}

byId("sprite-which").onchange = (event) => select(Number(event.target.value));
byId("sprite-shape").onchange = (event) => change({ shape: event.target.value });
byId("sprite-colour").onchange = (event) => { if (event.target.value) change({ c0: COLOURS[event.target.value], c1: 0.9, c2: 1 }); };
for (const name of FACTORS) {
  byId(`sprite-${name}`).oninput = (event) => change({ [name]: Number(event.target.value) }, true);
  byId(`sprite-${name}`).onchange = (event) => change({ [name]: Number(event.target.value) });
}

byId("sprite-add").onclick = () => {
  const hue = Object.values(COLOURS)[app.scene.sprites.length % 5];
  const shape = ["square", "circle", "triangle"][app.scene.sprites.length % 3];
  const place = () => 0.15 + 0.7 * Math.random();
  const sprite = { x: place(), y: place(), shape, angle: 0, scale: 0.13, c0: hue, c1: 0.9, c2: 1 };
  app.selected = app.scene.sprites.length;
  app.scene = { ...app.scene, sprites: [...app.scene.sprites, sprite] };
  arrange(app.scene.sprites.map(plain));
};
byId("sprite-remove").onclick = () => {
  if (app.scene.sprites.length <= 1) return;
  const sprites = app.scene.sprites.filter((_, n) => n !== app.selected).map(plain);
  app.selected = Math.max(0, app.selected - 1);
  arrange(sprites);
};
