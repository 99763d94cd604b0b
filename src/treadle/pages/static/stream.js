// Follows the stream of a page while somebody can see it: a browser has few connections to a site.
"use strict";
function followStream(makeAddress, tell) {
  let events = null;
  const look = () => {
    if (document.hidden) {
      events?.close();
      events = null;
    } else if (!events || events.readyState === EventSource.CLOSED) {
      events = new EventSource(makeAddress());
      events.addEventListener("state", (event) => tell(JSON.parse(event.data)));
    }
  };
  document.addEventListener("visibilitychange", look);
  look();
}
