// The panel Look inside: layers over the scene, slots and their latents.

import { heat, showPicture, slotColour } from "./draw.js";
import { bytes, latest } from "./net.js";
import { redrawStage } from "./stage.js";
import { app, ask, byId, on, rounded } from "./state.js";

app.layers = {};
app.slot = -1;
let seen = null; // the session's answer to `look`, unpacked
let values = null; // latents of the chosen slot, as the sliders have them

const refreshSlots = latest(async () => {
  const answer = await ask("look");
  if (!answer) return;
  seen = { ...answer, masks: bytes(answer.masks), components: bytes(answer.components) };
  app.layers.masks = seen.masks;
  app.background = seen.background;
  drawSlots();
  chooseSlot(app.slot >= 0 && app.slot < app.known.slots ? app.slot : firstObject());
  redrawStage();
});

const refreshMap = latest(async (layer) => {
  if (layer === "reward_map" && app.agent === "none") return void legend("Choose an agent under Watch, or teach one, to see what it wants.");
  const answer = await ask(layer, layer === "reward_map" ? { sprite: app.selected } : {});
  if (!answer) return;
  app.layers[layer] = { side: answer.side, values: bytes(answer.map) };
  legend(rounded(answer.low), rounded(answer.high));
  redrawStage();
});

const refreshProposals = latest(async () => {
  const answer = await ask("proposals");
  if (answer && byId("layer-proposals").checked) app.proposals = answer;
  redrawStage();
});

function legend(low, high = "") {
  byId("legend").hidden = low === undefined;
  byId("legend-bar").hidden = !high;
  byId("legend-low").textContent = low ?? "";
  byId("legend-high").textContent = high;
  const context = byId("legend-bar").getContext("2d");
  for (let i = 0; i < 128; i++) {
    context.fillStyle = `rgb(${heat(i / 127).join(",")})`;
    context.fillRect(i, 0, 1, 1);
  }
}

// The slot that covers most of what is not the background.
function firstObject() {
  const n = app.known.size ** 2;
  const sums = Array.from({ length: app.known.slots }, (_, k) => seen.masks.subarray(k * n, (k + 1) * n).reduce((a, b) => a + b, 0));
  sums[seen.background] = -1;
  return sums.indexOf(Math.max(...sums));
}

function drawSlots() {
  const box = byId("slots");
  if (box.children.length !== app.known.slots) {
    box.replaceChildren();
    for (let k = 0; k < app.known.slots; k++) box.append(slotButton(k));
  }
  [...box.querySelectorAll("canvas")].forEach((canvas, k) => showPicture(canvas, seen.components, app.known.size, k));
  [...box.querySelectorAll("span")].forEach((name, k) => {
    name.style.borderColor = `rgb(${slotColour(k, seen.background).join(",")})`;
  });
}

function slotButton(k) {
  const label = document.createElement("label");
  const input = Object.assign(document.createElement("input"), { type: "radio", name: "slot", value: k });
  input.setAttribute("aria-label", `Slot ${k + 1}`);
  input.onchange = () => { chooseSlot(k); redrawStage(); };
  const canvas = document.createElement("canvas");
  canvas.setAttribute("aria-hidden", "true");
  const name = document.createElement("span");
  name.textContent = k + 1;
  label.append(input, canvas, name);
  return label;
}

function chooseSlot(k) {
  app.slot = k;
  document.querySelector(`input[name=slot][value="${k}"]`).checked = true;
  byId("latents-title").textContent = `Latents of slot ${k + 1}`;
  values = [...seen.values[k]];
  drawSliders();
  redraw();
}

function drawSliders() {
  const box = byId("latents");
  if (box.children.length !== values.length) {
    box.replaceChildren();
    app.known.latents.forEach((name, m) => {
      const label = document.createElement("label");
      const input = Object.assign(document.createElement("input"), { type: "range", step: 0.05 });
      input.id = `latent-${m}`;
      const text = document.createElement("span");
      text.textContent = name;
      input.oninput = () => { values[m] = Number(input.value); redraw(); };
      label.append(text, input);
      box.append(label);
    });
  }
  values.forEach((value, m) => {
    const [low, high] = seen.ranges[m];
    const input = byId(`latent-${m}`);
    Object.assign(input, { min: Math.min(low, value), max: Math.max(high, value) });
    input.value = value;
  });
}

const redraw = latest(async () => {
  const latents = values.map((value) => Math.max(-10, Math.min(10, value)));
  const answer = await ask("redraw", { slot: app.slot, latents });
  if (!answer) return;
  showPicture(byId("traversal-scene"), bytes(answer.picture), app.known.size);
  showPicture(byId("traversal-slot"), bytes(answer.component), app.known.size);
});
byId("latents-reset").onclick = () => chooseSlot(app.slot);

// Bring what is shown up to date with the scene.
export function refreshLook() {
  if (!app.scene) return;
  app.layers = {};
  app.proposals = null;
  if (app.tab === "look" || app.layer === "masks") refreshSlots();
  if (app.layer === "curiosity" || app.layer === "reward_map") refreshMap(app.layer);
  else legend();
  if (byId("layer-proposals").checked) refreshProposals();
  redrawStage();
}
on("scene", refreshLook);
on("tab", refreshLook);
on("agent", refreshLook);
on("selected", () => { if (app.layer === "reward_map") refreshLook(); });
on("learnt", () => {
  if (app.layer === "reward_map") refreshMap("reward_map");
  if (byId("layer-proposals").checked) refreshProposals();
});
for (const input of document.querySelectorAll("input[name=layer]")) {
  input.onchange = () => { app.layer = input.value; refreshLook(); };
}
byId("layer-proposals").onchange = refreshLook;
