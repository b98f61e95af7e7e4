// The page: connects to its session, hands messages on, and switches panels.

import { setOutlines } from "./draw.js";
import { Connection } from "./net.js";
import "./stage.js";
import "./play.js";
import "./look.js";
import "./watch.js";
import "./teach.js";
import "./guide.js";
import { app, byId, notice, setLive, setRest, setScene, emit } from "./state.js";

const PARTS = 6; // that the session prepares

const HANDLERS = {
  preparing: ({ what, done }) => {
    setLive(false);
    setRest(`getting ready (${done + 1} of ${PARTS}): ${what} …`, "busy");
    byId("waiting").hidden = false;
    byId("waiting-text").textContent = `${done + 1} of ${PARTS}: ${what} …`;
    byId("waiting-progress").value = done;
  },
  ready: (known) => {
    setLive(true);
    byId("waiting").hidden = true;
    app.known = known;
    app.agent = "none";
    app.mode = "train";
    app.lesson = null;
    byId("lesson").hidden = true;
    setOutlines(known.outlines);
    setRest("ready");
    emit("ready");
    setScene(known.scene);
    document.body.dataset.ready = "yes";
  },
  progress: (progress) => emit("progress", progress),
  error: ({ message }) => notice(message),
  crashed: ({ message, restarts }) => {
    notice(`The session crashed (${message}). ${restarts ? "It starts again; what was not saved is lost." : "Reload the page to try again."}`, true);
    setLive(false);
    setRest("the session crashed", "bad");
  },
  idle: () => notice("This session was not used for a while and has ended. Reload the page to go on.", true),
  full: ({ most }) => notice(`There are ${most} pages open already. Close one, then reload this page.`, true),
};

app.connection = new Connection(
  (message) => HANDLERS[message.type]?.(message),
  () => {
    setLive(false);
    setRest("not connected", "bad");
    byId("waiting").hidden = true;
    document.body.dataset.ready = "no";
    if (byId("notice").hidden) notice("The connection is closed. Is `cobra play` still running? Reload the page to go on.", true);
  },
);
window.cobra = app; // for measurements, and for the curious

const tabs = [...document.querySelectorAll("[role=tab]")];
function show(tab) {
  for (const other of tabs) {
    const chosen = other === tab;
    other.setAttribute("aria-selected", chosen);
    other.tabIndex = chosen ? 0 : -1;
    byId(other.getAttribute("aria-controls")).hidden = !chosen;
  }
  app.tab = tab.id.replace("tab-", "");
  emit("tab");
}
tabs.forEach((tab, n) => {
  tab.onclick = () => show(tab);
  tab.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(n + step + tabs.length) % tabs.length];
    show(next);
    next.focus();
  };
});
