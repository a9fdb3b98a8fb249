// What a browser remembers of a page; nothing if its settings forbid it.
"use strict";

const PREFIX = "zodbrepl-";

export function kept(name) {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

export function keep(name, value) {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, value);
  } catch { /* It lasts as long as the page. */ }
}
