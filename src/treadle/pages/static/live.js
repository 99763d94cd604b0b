// Keeps the last page of a thread up to date: what is recorded, and what is being said.
// Without it all can be read; only reloading shows what is new.
"use strict";
(() => {
  const items = document.getElementById("items");
  const live = document.getElementById("live");
  let isFetching = false;
  let wanted = Number(items.dataset.version);

  const stayAtEnd = (change) => {
    const whole = document.documentElement;
    const stays = window.innerHeight + window.scrollY >= whole.scrollHeight - 80;
    change();
    if (stays) window.scrollTo(0, whole.scrollHeight);
  };

  const parse = (html) => new DOMParser().parseFromString(html, "text/html");

  const refresh = async () => {
    if (isFetching) return;
    isFetching = true;
    try {
      while (Number(items.dataset.version) < wanted) {
        const answer = await fetch(`?page=${items.dataset.page}`, { credentials: "same-origin" });
        if (!answer.ok) return;
        const page = parse(await answer.text());
        const fresh = page.getElementById("items");
        if (!fresh) return;
        if (Number(fresh.dataset.version) < Number(items.dataset.version)) continue;
        stayAtEnd(() => replace(page, fresh));
      }
    } finally {
      isFetching = false;
    }
  };

  const replace = (page, fresh) => {
    show(fresh, [...fresh.children].map((_, at) => at), fresh.children.length, fresh.dataset);
    const acts = document.getElementById("acts");
    const other = page.getElementById("acts");
    if (acts && other && acts.dataset.state !== other.dataset.state) renew(acts, other);
    const pages = page.querySelectorAll(".pages");
    document.querySelectorAll(".pages").forEach((nav, at) => pages[at] && nav.replaceWith(pages[at]));
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

  // Puts elements in their places, of which there are so many now.
  // What is the same stays where it is: somebody may have opened it, or marked its text.
  const show = (fresh, places, count, { version, tag }) => {
    showLocalTimes(fresh);
    const before = [...items.children];
    [...fresh.children].forEach((one, at) => {
      const old = before[places[at]];
      if (!old) items.append(one);
      else if (!isSame(old, one)) {
        if (old.open) one.open = true;
        old.replaceWith(one);
      }
    });
    before.slice(count).forEach((one) => one.remove());
    items.dataset.version = version;
    items.dataset.tag = tag;
  };

  const isSame = (old, one) => {
    const copy = old.cloneNode(true);
    copy.removeAttribute("open");
    return copy.isEqualNode(one);
  };

  // Forms are each visitor's own: where there are some, the page is fetched, and nothing sent.
  const makeAddress = () => {
    const page = document.getElementById("acts") ? "" : `?page=${items.dataset.page}`;
    return items.dataset.live + page;
  };

  followStream(makeAddress, (told) => {
    live.textContent = told.text;
    live.hidden = !told.text;
    if (told.since && told.since === items.dataset.tag) {
      stayAtEnd(() => show(parse(told.html).body, told.places, told.count, told));
    }
    wanted = Math.max(wanted, told.version);
    refresh();
  });
})();
