// The first minute: four short steps over the page, which can be skipped.

import { app, byId, on } from "./state.js";

const STEPS = [
  { title: "Drag a sprite", text: "Take any sprite in the scene and pull it a little way. Do not let go yet.", tab: "play", at: "stage-figure", until: "outcome" },
  { title: "See what it foresees", text: "Beside the scene the agent draws what it expects, while you drag. After you let go, compare: where it was wrong is bright. The ring is how far noise may carry its middle.", tab: "play", at: "imagined-figure" },
  { title: "See what it is curious about", text: "Bright places are those where it expects a click to surprise it. Nobody rewarded it for finding things.", tab: "look", at: "stage-figure", layer: "curiosity" },
  { title: "Teach it", text: "Press Example, then Start teaching. In about a minute it has learnt to bring squares to the upper left, and shows it. Then set goals of your own.", tab: "teach", at: "panel-teach", layer: "none" },
];
const SEEN = "cobra-play-guide-seen";
let now = -1;

function show(step) {
  document.querySelector(".pointed")?.classList.remove("pointed");
  now = step;
  const { title, text, tab, at, layer } = STEPS[step];
  byId(`tab-${tab}`).click();
  if (layer) document.querySelector(`input[name=layer][value=${layer}]`).click();
  byId("guide-count").textContent = `${step + 1} of ${STEPS.length}`;
  byId("guide-title").textContent = title;
  byId("guide-text").textContent = text;
  byId("guide-next").textContent = step === STEPS.length - 1 ? "Done" : "Next";
  byId("guide").hidden = false;
  byId(at).classList.add("pointed");
  if (matchMedia("(max-width: 40rem)").matches) byId(at).scrollIntoView({ block: "start" });
}

function close() {
  document.querySelector(".pointed")?.classList.remove("pointed");
  byId("guide").hidden = true;
  now = -1;
  try { localStorage.setItem(SEEN, "yes"); } catch { /* a private window: the guide comes again */ }
}

byId("guide-next").onclick = () => (now < STEPS.length - 1 ? show(now + 1) : close());
byId("guide-skip").onclick = close;
byId("guide-open").onclick = () => { show(0); byId("guide-next").focus(); };
on("outcome", () => { if (STEPS[now]?.until === "outcome") show(now + 1); });
on("ready", () => {
  let seen = null;
  try { seen = localStorage.getItem(SEEN); } catch { /* as above */ }
  if (!seen && now < 0) show(0);
});
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && now >= 0) close(); });
