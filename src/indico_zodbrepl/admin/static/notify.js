// Notifies of a worse state and of another primary, in browsers in which somebody turned it on.
"use strict";

import {keep, kept} from "./kept.js";

const ON = "on";
const NAME = "notify";
const LAST = "notified";
const RANKS = ["healthy", "degraded", "unknown", "critical", "down"];
const SAME = 120000;  // milliseconds in which other tabs do not repeat a notification
const control = document.getElementById("notify");
let known = null;

const isAllowed = () => isSecureContext && window.Notification?.permission === "granted";
const isOn = () => isAllowed() && kept(NAME) === ON;

function show(title, body) {
  const shown = new Notification(title, {body});
  shown.addEventListener("click", () => { window.focus(); shown.close(); });
}

function isRepeated(key) {
  const [last, at] = (kept(LAST) ?? "").split("@");
  if (last === key && Date.now() - Number(at) < SAME) return true;
  keep(LAST, [key, Date.now()].join("@"));
  return false;
}

// Tells what the page shows now; an empty primary means that none is known.
export function heard(state, primary, sentence) {
  const before = known;
  known = {state, primary: primary || before?.primary || ""};
  if (before === null || !isOn()) return;
  const said = [];
  if (RANKS.indexOf(state) > RANKS.indexOf(before.state)) said.push(sentence);
  if (before.primary && before.primary !== known.primary) {
    said.push(document.getElementById("taken").dataset.changed
      .replace("{node}", known.primary).replace("{before}", before.primary));
  }
  if (said.length > 0 && !isRepeated([state, known.primary].join())) {
    try { show(document.title, said.join("\n")); } catch { /* The browser cannot. */ }
  }
}

function tell(text = "") {
  control.setAttribute("aria-pressed", String(isOn()));
  document.getElementById("notify-told").textContent = text;
}

async function change() {
  if (isOn()) {
    keep(NAME, null);
    return tell();
  }
  if (await Notification.requestPermission() !== "granted") return tell(control.dataset.refused);
  try {
    show(document.title, control.dataset.begun);
  } catch {
    return tell(control.dataset.unable);  // telephones notify from a service worker alone
  }
  keep(NAME, ON);
  tell();
}

if (control !== null) {
  control.parentElement.hidden = false;
  control.disabled = !isSecureContext || !("Notification" in window);
  tell(control.disabled ? control.dataset.unable : "");
  control.addEventListener("click", change);
}
