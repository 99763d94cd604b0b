// Keeps a part of a page up to date: a list, a fleet. Without it reloading shows what is new.
"use strict";
(() => {
  let shown = document.getElementById("region");
  let isFetching = false;
  let isDue = false;

  const refresh = async () => {
    isDue = true;
    if (isFetching) return;
    isFetching = true;
    try {
      while (isDue) {
        isDue = false;
        const answer = await fetch(location.pathname + location.search, { credentials: "same-origin" });
        if (!answer.ok) return;
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.getElementById("region");
        if (!fresh) return;
        showLocalTimes(fresh);
        replace(fresh);
      }
    } finally {
      isFetching = false;
    }
  };

  // Who is on a link or a button stays on it, where it is still there.
  const replace = (fresh) => {
    if (shown.isEqualNode(fresh)) return;
    const same = (root) => [...root.querySelectorAll("a, button, [tabindex]")];
    const was = document.activeElement;
    const at = same(shown).indexOf(was);
    const name = (one) => one.getAttribute("href") || one.id || one.getAttribute("aria-label");
    const next = at < 0 ? null : same(fresh).find((one) => name(one) === name(was));
    shown.replaceWith(fresh);
    shown = fresh;
    if (next) next.focus({ preventScroll: true });
  };

  followStream(() => shown.dataset.live, refresh);
})();
