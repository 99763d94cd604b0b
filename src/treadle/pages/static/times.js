// Times are UTC without a script; here they become those of the reader's clock.
"use strict";
function showLocalTimes(root) {
  for (const one of root.querySelectorAll("time.at")) {
    const moment = new Date(one.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    one.textContent = moment.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  }
}
showLocalTimes(document);
