// The live page: pictures of the ring come as server-sent events, and each is shown whole.

import { makeLegend, setHealth, showIncidents, showLinks, showSummary, showTable, showTip } from "./panels.js";
import { Ring } from "./ring.js";

const SILENCE_MS = 20000; // without a word from the broker the page says so

const stage = document.getElementById("stage");
const ring = new Ring(document.getElementById("ring"), (it, event) => showTip(it, event, stage));
makeLegend((linkClass, isHidden) => ring.hide(linkClass, isHidden));
let last = null;

export function show(picture) {
  last = picture;
  ring.show(picture);
  showSummary(picture);
  showLinks(picture);
  showIncidents(picture);
  showTable(picture);
}

document.querySelector("details").addEventListener("toggle", () => { if (last) showTable(last); });

function follow() {
  let timer = 0;
  const source = new EventSource("/api/ring/stream");
  const lost = (words) => setHealth("lost", words);
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => lost("the broker is silent"), SILENCE_MS);
  };
  source.addEventListener("open", heard);
  source.addEventListener("picture", (event) => { heard(); show(JSON.parse(event.data)); });
  source.addEventListener("error", () => {
    lost("no connection to the broker; trying again");
    // A refusal ends an event source for good; a lost connection does not.
    if (source.readyState === EventSource.CLOSED) { clearTimeout(timer); setTimeout(follow, 2000); }
  });
}

// With #still the page shows only what show() is given: a drawing without a broker behind it.
if (location.hash !== "#still") follow();
