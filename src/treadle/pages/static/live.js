// Keeps the last page of a thread up to date: what is recorded, and what is being said.
// Without it all can be read; only reloading shows what is new.
"use strict";
(() => {
  const items = document.getElementById("items");
  const live = document.getElementById("live");
  let isFetching = false;
  let wanted = Number(items.dataset.version);

  const isAtEnd = () =>
    window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 80;

  const refresh = async () => {
    if (isFetching) return;
    isFetching = true;
    try {
      while (Number(items.dataset.version) < wanted) {
        const answer = await fetch(`?page=${items.dataset.page}`, { credentials: "same-origin" });
        if (!answer.ok) return;
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.getElementById("items");
        if (!fresh) return;
        showLocalTimes(fresh);
        const stays = isAtEnd();
        merge(fresh);
        items.dataset.version = fresh.dataset.version;
        const acts = document.getElementById("acts");
        const other = page.getElementById("acts");
        if (acts && other && acts.dataset.state !== other.dataset.state) renew(acts, other);
        const pages = page.querySelectorAll(".pages");
        document.querySelectorAll(".pages").forEach((nav, at) => pages[at] && nav.replaceWith(pages[at]));
        if (stays) window.scrollTo(0, document.documentElement.scrollHeight);
      }
    } finally {
      isFetching = false;
    }
  };

  // What somebody has typed stays with them, in the form that goes on being there.
  const renew = (acts, other) => {
    const typed = acts.querySelector("#say textarea");
    const box = other.querySelector("#say textarea");
    if (typed && box) box.value = typed.value;
    const had = typed && document.activeElement === typed;
    acts.replaceWith(other);
    if (had && box) box.focus();
  };

  // What is the same stays where it is: somebody may have opened it, or marked its text.
  const merge = (fresh) => {
    const before = [...items.children];
    [...fresh.children].forEach((one, at) => {
      const old = before[at];
      if (!old) items.append(one);
      else if (!isSame(old, one)) {
        if (old.open) one.open = true;
        old.replaceWith(one);
      }
    });
    before.slice(fresh.children.length).forEach((one) => one.remove());
  };

  const isSame = (old, one) => {
    const copy = old.cloneNode(true);
    copy.removeAttribute("open");
    return copy.isEqualNode(one);
  };

  const events = new EventSource(items.dataset.live);
  events.addEventListener("state", (event) => {
    const told = JSON.parse(event.data);
    live.textContent = told.text;
    live.hidden = !told.text;
    wanted = Math.max(wanted, told.version);
    refresh();
  });
})();
