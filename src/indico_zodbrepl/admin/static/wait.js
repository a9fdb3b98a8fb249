// Waits for a plan or a comparison and then opens it, without reloading the page meanwhile.
"use strict";

(() => {
  const EVERY = 2000;
  const BUSY = 429;
  const again = document.querySelector("[data-again]").dataset.again;
  const since = document.getElementById("since");

  async function look() {
    try {
      const answer = await fetch(again, {cache: "no-store", redirect: "manual"});
      if (answer.status !== BUSY) {
        const fresh = answer.ok
          ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
        const twin = fresh?.getElementById("since");
        if (!twin) return location.replace(again);
        since.textContent = twin.textContent;
      }
    } catch (error) {
      // The page does not answer; it is asked again.
    }
    setTimeout(look, EVERY);
  }

  setTimeout(look, EVERY);
})();
