// What the agent imagines beside the scene, how far noise may carry a sprite from there, and what came of a push.

import { drawRing, prepare, REACH, showDifference, showPicture } from "./draw.js";
import { bytes } from "./net.js";
import { app, ask, byId, on, rounded, setScene, emit } from "./state.js";

let pictures = {}; // imagined, truth, and the ring
const BRIGHT = "Bright pixels were imagined wrong. An error is the squared difference, summed over all pixels.";
const inFrame = (value) => Math.min(Math.max(value, 0), 1);

// Where a push brings a sprite if there is no noise, and how far noise may carry it.
export function aimedAt(sprite, push, noise) {
  const [dx, dy] = [2, 3].map((i) => 2 * REACH * (push[i] - 0.5));
  return { x: inFrame(sprite.x + dx), y: inFrame(sprite.y + dy), noise };
}

// The ring around where the sprite that was moved had been pushed to.
export function ringOf({ moved, before, action: push, scene }) {
  return moved < 0 ? null : aimedAt(before[moved], push, scene.noise);
}

function drawImagined() {
  const imagined = byId("imagined");
  showPicture(imagined, pictures.imagined, app.known.size);
  if (pictures.ring?.noise) drawRing(imagined.getContext("2d"), imagined.width, pictures.ring);
}

export function showImagined(answer, hint, ring = null) {
  pictures.imagined = bytes(answer.picture);
  pictures.ring = ring;
  drawImagined();
  app.ring = ring; // the stage shows it too, and where the sprite has landed
  byId("imagined-hint").textContent = hint;
  byId("expected-error").textContent = rounded(answer.error, 0);
  if (answer.expected_reward !== undefined && answer.type === "imagined") byId("expected-reward").textContent = rounded(answer.expected_reward);
}

// Until there is a push to imagine: the scene as the agent sees it.
export function showSeen(scene) {
  pictures = { imagined: bytes(scene.picture) };
  app.ring = null;
  drawImagined();
  byId("outcome-text").textContent = BRIGHT;
  byId("imagined-hint").textContent = "the scene as it sees it";
  byId("expected-error").textContent = byId("true-error").textContent = "–";
  const { context, side } = prepare(byId("difference"));
  context.clearRect(0, 0, side, side);
}

export function showOutcome(answer) {
  const ring = ringOf(answer);
  showImagined(answer, "what it had imagined", ring);
  if (answer.moved < 0) byId("outcome-text").textContent = "The click hit no sprite, so that nothing moved.";
  else if (ring.noise) {
    const after = answer.scene.sprites[answer.moved];
    app.ring = { ...ring, landed: after };
    const far = Math.round(100 * Math.hypot(after.x - ring.x, after.y - ring.y));
    byId("outcome-text").textContent = `Noise carried it ${far} % of the frame away from where it was pushed: nobody can foresee that. ${BRIGHT}`;
  } else byId("outcome-text").textContent = BRIGHT;
  pictures.truth = bytes(answer.truth);
  showDifference(byId("difference"), pictures.imagined, pictures.truth, app.known.size);
  byId("true-error").textContent = rounded(answer.true_error, 0);
  emit("outcome", answer);
}

byId("noise").onchange = async (event) => {
  const answer = await ask("noise", { on: event.target.checked });
  if (answer) setScene(answer);
};

function showNoise({ noise, noise_of_rules: usual }) {
  byId("noise").disabled = !usual;
  byId("noise").checked = noise > 0;
  const off = usual ? "It is switched off: a sprite lands where it is pushed." : "By these rules there is none: a sprite lands where it is pushed.";
  byId("noise-text").textContent = noise ? "Pushes are noisy by these rules: 6 of 7 bring the middle of a sprite within the ring." : off;
}

on("scene", showNoise);
new ResizeObserver(() => { if (pictures.imagined) drawImagined(); }).observe(byId("imagined"));
