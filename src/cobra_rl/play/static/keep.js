// Keeping what was taught: saved as a run folder, or its task as Python.

import { announce, app, ask, byId } from "./state.js";
import { listAgents } from "./watch.js";

// Say under the buttons what became of it.
export function say(text, wrong = false) {
  byId("saved").textContent = text;
  byId("saved").classList.toggle("wrong", wrong);
  byId("save-name").setAttribute("aria-invalid", wrong);
}

byId("save").onclick = async () => {
  const input = byId("save-name");
  input.value = input.value.trim();
  if (!input.value || !input.checkValidity()) {
    say(`“${input.value}” cannot be a name: use at most 40 letters, digits, - and _, the first a letter or a digit.`, true);
    return void input.focus();
  }
  const answer = await ask("save", { name: input.value });
  if (!answer) return void say(byId("notice").textContent, true);
  listAgents(answer.agents);
  say(`Saved: cobra_rl.Agent.load("${answer.folder}"), or cobra watch --run ${answer.folder}`);
  announce("Saved.");
};
byId("save-name").oninput = () => say("");
byId("copy").onclick = async () => {
  const answer = await ask("source");
  if (!answer) return;
  Object.assign(byId("source"), { textContent: answer.python, hidden: false });
  try { await navigator.clipboard.writeText(answer.python); announce("Copied."); } catch { byId("source").focus(); }
};
