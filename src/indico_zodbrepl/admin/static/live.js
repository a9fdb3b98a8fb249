// Refreshes the parts marked data-live from the page itself, rendered anew by the server.
"use strict";

(() => {
  const EVERY = 2000;
  const PATIENCE = 4000;
  const freshness = document.getElementById("freshness");
  const gone = document.getElementById("gone");
  const button = document.getElementById("pause");
  let paused = false;

  function tell() {
    const taken = document.getElementById("taken").dataset.taken;
    freshness.textContent = paused ? `Paused at ${taken}` : `Seen ${taken}`;
  }

  function isSelectedIn(part) {
    const selection = document.getSelection();
    return selection !== null && !selection.isCollapsed && part.contains(selection.anchorNode);
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

  function keepFocus(part, swap) {
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    const position = focused === null ? -1
      : [...part.querySelectorAll("a, summary, pre")].indexOf(focused);
    swap();
    if (focused !== null) {
      const twin = focused.id ? document.getElementById(focused.id)
        : part.querySelectorAll("a, summary, pre")[position];
      if (twin) twin.focus({preventScroll: true});
    }
  }

  function show(fresh) {
    const parts = new Map();
    for (const part of fresh.querySelectorAll("[data-live]")) parts.set(part.id, part);
    for (const part of document.querySelectorAll("[data-live]")) {
      const twin = parts.get(part.id);
      if (twin === undefined || isSelectedIn(part)) continue;
      keepOpen(part, twin);
      part.className = twin.className;
      if (twin.dataset.taken) part.dataset.taken = twin.dataset.taken;
      if (part.innerHTML !== twin.innerHTML) {
        keepFocus(part, () => part.replaceChildren(...twin.childNodes));
      }
    }
    document.title = fresh.title;
  }

  async function refresh() {
    try {
      const answer = await fetch(location.pathname,
        {cache: "no-store", signal: AbortSignal.timeout(PATIENCE)});
      if (!answer.ok) throw new Error(`it answered ${answer.status}`);
      show(new DOMParser().parseFromString(await answer.text(), "text/html"));
      gone.hidden = true;
      document.body.classList.remove("old");
    } catch (error) {
      const taken = document.getElementById("taken").dataset.taken;
      const text = `This is old: the admin page has not answered since ${taken}. What is shown may `
        + "not be true any more; bin/zodbrepl status works without the page.";
      if (gone.hidden || gone.textContent !== text) gone.textContent = text;
      gone.hidden = false;
      document.title = `No answer: ${location.host}`;
      document.body.classList.add("old");
    }
    tell();
  }

  async function loop() {
    if (!paused && !document.hidden) await refresh();
    setTimeout(loop, EVERY);
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
  setTimeout(loop, EVERY);
})();
