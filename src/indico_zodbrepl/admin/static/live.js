// Refreshes the parts marked data-live from the page itself, rendered again by the server.
"use strict";

import {heard} from "./notify.js";
import {clock, localise} from "./times.js";

(() => {
  const EVERY = 1000;
  const EVERY_HIDDEN = 10000;
  const PATIENCE = 4000;
  const FAILURES = 3;  // in a row, until the state counts as unknown
  const KEEPS_FOCUS = "a, summary, pre, button";
  const TYPED_INTO = "input, select, textarea";
  const freshness = document.getElementById("freshness");
  const gone = document.getElementById("gone");
  const icon = document.querySelector("link[rel=icon]");
  const button = document.getElementById("pause");
  let paused = false;
  let tag = "";
  let failures = 0;

  const now = document.getElementById("taken").dataset;

  // The text with the time of the snapshot in it.
  function withTime(text) {
    const [before, after] = text.split("{time}");
    return after === undefined ? [text] : [before, clock(now.taken), after];
  }

  function tell() {
    freshness.replaceChildren(...withTime(
      paused ? freshness.dataset.paused : freshness.dataset.seen));
  }

  function isInUse(part) {
    const selection = document.getSelection();
    if (selection !== null && !selection.isCollapsed
        && (part.contains(selection.anchorNode) || part.contains(selection.focusNode))) return true;
    return document.activeElement.matches(TYPED_INTO) && part.contains(document.activeElement);
  }

  function keepOpen(old, fresh) {
    for (const details of old.querySelectorAll("details[id]")) {
      const twin = fresh.querySelector(`#${CSS.escape(details.id)}`);
      if (twin !== null && twin.querySelector("summary").textContent
          === details.querySelector("summary").textContent) {
        twin.open = details.open;
      }
    }
  }

  function keepPlace(part, swap) {
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const position = focused === null ? -1
      : [...part.querySelectorAll(KEEPS_FOCUS)].indexOf(focused);
    const scrolled = [...part.querySelectorAll("pre")].map(each => each.scrollTop);
    const [x, y] = [scrollX, scrollY];
    swap();
    part.querySelectorAll("pre").forEach((each, at) => { each.scrollTop = scrolled[at] ?? 0; });
    if (focused !== null) {
      const twin = focused.id ? document.getElementById(focused.id)
        : part.querySelectorAll(KEEPS_FOCUS)[position];
      if (twin) twin.focus({preventScroll: true});
    }
    if (scrollX !== x || scrollY !== y) scrollTo({left: x, top: y, behavior: "instant"});
  }

  function show(fresh) {
    localise(fresh);  // before it is compared, so that an unchanged part stays
    const parts = new Map();
    let whole = true;
    for (const part of fresh.querySelectorAll("[data-live]")) parts.set(part.id, part);
    for (const part of document.querySelectorAll("[data-live]")) {
      const twin = parts.get(part.id);
      if (twin === undefined) continue;
      if (isInUse(part)) { whole = false; continue; }
      keepOpen(part, twin);
      part.className = twin.className;
      Object.assign(part.dataset, twin.dataset);
      if (part.innerHTML !== twin.innerHTML) {
        keepPlace(part, () => part.replaceChildren(...twin.childNodes));
      }
    }
    head(fresh.title, fresh.querySelector("link[rel=icon]").getAttribute("href"));
    return whole;
  }

  function head(title, href) {
    if (document.title !== title) document.title = title;
    if (icon.getAttribute("href") !== href) icon.setAttribute("href", href);
  }

  function lost(title) {
    head(title.replace("{host}", location.host), icon.dataset.unknown);
    document.body.classList.add("old");
  }

  function warn(text, link) {
    const said = gone.querySelector("span");
    const span = document.createElement("span");
    span.append(...withTime(text));
    if (!gone.hidden && said !== null && said.textContent === span.textContent) return;
    gone.replaceChildren(span);
    if (link) {
      const anchor = document.createElement("a");
      anchor.href = location.href;
      anchor.textContent = gone.dataset.logIn;
      gone.append(" ", anchor);
    }
    gone.hidden = false;
  }

  function report() {
    heard(now.state, now.primary, document.querySelector("#situation h1").textContent);
  }

  async function refresh() {
    try {
      const answer = await fetch(location.pathname + location.search, {
        cache: "no-store", redirect: "manual", signal: AbortSignal.timeout(PATIENCE),
        headers: {"X-Refresh": "1", ...(tag ? {"If-None-Match": tag} : {})}});
      if (answer.type === "opaqueredirect" || answer.status === 401) {
        warn(gone.dataset.ended, true);
        lost(gone.dataset.endedTitle);
        heard("unknown", "", gone.dataset.ended);
        tell();
        return;
      }
      if (answer.status === 429) return tell();  // it is busy, and asked again soon
      if (answer.status === 304) {
        now.taken = answer.headers.get("Zodbrepl-Taken");
      } else {
        if (!answer.ok) throw new Error(`it answered ${answer.status}`);
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        tag = show(fresh) ? answer.headers.get("ETag") ?? "" : "";
      }
      if (!gone.hidden) tag = "";
      gone.hidden = true;
      document.body.classList.remove("old");
      failures = 0;
      report();
    } catch (error) {
      warn(gone.dataset.gone, false);
      lost(gone.dataset.title);
      tag = "";
      failures += 1;
      if (failures === FAILURES) heard("unknown", "", gone.textContent);
    }
    tell();
  }

  async function loop() {
    if (!paused) await refresh();
    setTimeout(loop, document.hidden ? EVERY_HIDDEN : EVERY);  // a hidden tab has an icon
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
    document.body.classList.toggle("paused", paused);
    tell();
    if (!paused) refresh();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !paused) refresh();
  });
  tell();
  report();
  setTimeout(loop, EVERY);
})();
