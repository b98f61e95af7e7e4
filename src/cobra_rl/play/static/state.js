// What all parts of the page share: the connection, the scene, and who wants to know when something changes.

export const byId = (id) => document.getElementById(id);

export const app = {
  connection: null,
  live: false, // whether the session can answer
  known: null, // what the session says once: sizes, names, outlines
  scene: null, // sprites, goals, reward, ...
  selected: 0,
  agent: "none",
  mode: "train",
  tab: "play",
  layer: "none",
  parts: [], // of the task that is being put together
  latencies: [], // of imagination while dragging, in ms; for measurements
  errors: [],
};

const listeners = {};

export function on(event, listener) {
  (listeners[event] ??= []).push(listener);
}

export function emit(event, detail) {
  for (const listener of listeners[event] ?? []) listener(detail);
}

export function setScene(scene) {
  app.scene = scene;
  app.selected = Math.min(app.selected, scene.sprites.length - 1);
  emit("scene", scene);
}

let noticeTimer = 0;
export function notice(text, lasting = false) {
  const box = byId("notice");
  box.textContent = text;
  box.hidden = !text;
  clearTimeout(noticeTimer);
  if (text && !lasting) noticeTimer = setTimeout(() => { box.hidden = true; }, 6000);
}

export const announce = (text) => { byId("announce").textContent = text; };

let working = 0;
// Ask the session; a failure is shown, and what takes long is said to be under way.
export async function ask(type, fields = {}, what = "") {
  const timer = setTimeout(() => setStatus(what || "preparing this for the first time …", "busy"), 400);
  working += 1;
  try {
    return await app.connection.ask(type, fields);
  } catch (error) {
    app.errors.push(error.message);
    notice(error.message);
    return null;
  } finally {
    working -= 1;
    clearTimeout(timer);
    if (!working && byId("status").dataset.kind === "busy") setStatus(...rest);
  }
}

export function setStatus(text, kind = "ready") {
  const status = byId("status");
  if (status.textContent !== text) status.textContent = text;
  status.dataset.kind = kind;
}

let rest = ["connecting …", "busy"]; // what the status says while nothing is asked
export function setRest(text, kind = "ready") {
  rest = [text, kind];
  setStatus(text, kind);
}

// Only a page whose session can answer has controls that can be used.
export function setLive(live) {
  app.live = live;
  byId("live").disabled = byId("guide-open").disabled = !live;
}

export function option(select, value, text) {
  const entry = document.createElement("option");
  entry.value = value;
  entry.textContent = text;
  select.append(entry);
  return entry;
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export const rounded = (value, digits = 1) => (value === null || value === undefined ? "–" : value.toFixed(digits));
export const newSeed = () => Math.floor(Math.random() * 2 ** 31);
