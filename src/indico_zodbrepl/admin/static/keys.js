// Keyboard shortcuts; the dialog with their list turns them off.
"use strict";

import {keep, kept} from "./kept.js";

const OFF = "off";
const NAME = "keys";
const PATIENCE = 1500;  // milliseconds between the keys of a pair
const TYPED_INTO = "input, select, textarea, [contenteditable]";
const dialog = document.getElementById("keys");
const on = document.getElementById("keys-on");
const opener = document.getElementById("show-keys");
const closer = document.getElementById("close-keys");
let gone = -Infinity;

function show() {
  dialog.showModal();
  closer.focus();
}

function follow(key, at) {
  const link = document.querySelector(`a[data-key="${CSS.escape(key)}"]`);
  if (at - gone < PATIENCE && link !== null) {
    link.click();
  } else if (key === "?") {
    show();
  } else if (key === "p") {
    document.getElementById("pause")?.click();
  }
  gone = key === "g" ? at : -Infinity;
}

document.addEventListener("keydown", event => {
  const alone = !event.ctrlKey && !event.altKey && !event.metaKey && !event.repeat
    && !event.isComposing && !event.defaultPrevented;
  if (!alone || !on.checked || dialog.open || event.target.closest(TYPED_INTO)) return;
  if (event.key === "Shift") return;  // for the question mark
  follow(event.key, event.timeStamp);
  if (dialog.open) event.preventDefault();
});

on.checked = kept(NAME) !== OFF;
on.addEventListener("change", () => keep(NAME, on.checked ? null : OFF));
opener.hidden = false;
opener.addEventListener("click", show);
closer.addEventListener("click", () => dialog.close());
