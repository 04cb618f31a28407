// What stands beside the ring, in words and numbers. Others have a word in it, so all is set as text.

import { onRing } from "./layout.js";
import { nameOf, short } from "./ring.js";

const $ = (id) => document.getElementById(id);
export const CLASSES = ["normal", "express", "secure"];
const DASHES = { normal: "", express: "9 6", secure: ".1 6" };

function make(name, text = "", className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

// Of a link, by the names of its ends as they stand in the drawing.
let names = new Map();
const named = (link) => [link.a, link.b].map((uid) => names.get(uid) ?? uid.slice(0, 6)).join(" – ");

const sum = (rows, field) => rows.reduce((total, row) => total + (row[field] ?? 0), 0);

export const span = (seconds) => {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 120) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} d`;
};

// ── the ring as a whole ─────────────────────────────────────────────────────────────────────

const worker = new Worker("/page/strength.js", { type: "module" });
let asked = "";

worker.addEventListener("message", ({ data }) => {
  if (data.key === asked) showLosses(data.survives);
});

function showLosses(count) {
  document.body.dataset.survives = count;
  $("survives").textContent = count > 0 ? `survives the loss of any ${count === 1 ? "one" : `${count} at once`}` : "";
}

function askLosses(ring, links) {
  const normal = links.filter((link) => link.class === "normal" && !link.failed).map(({ a, b }) => ({ a, b }));
  const uids = ring.map((broker) => broker.uid);
  const key = uids.join() + normal.map(({ a, b }) => a + b).join();
  if (key === asked) return;
  asked = key;
  worker.postMessage({ key, uids, links: normal });
}

export function showSummary(picture) {
  names = new Map(picture.brokers.map((broker) => [broker.uid, nameOf(broker)]));
  const ring = picture.brokers.filter(onRing);
  const doubtful = ring.filter((broker) => broker.state !== "alive");
  askLosses(ring, picture.links);
  const many = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
  $("overlay").textContent = `overlay ${picture.overlay}`;
  $("size").textContent = many(ring.length, "broker");
  const health = doubtful.length || !picture.is_whole ? "healing" : "whole";
  const doubt = doubtful.some((broker) => broker.state === "suspected") ? "a broker is suspected" : "a broker does not answer";
  setHealth(health, health === "whole" ? "the ring is whole" : doubtful.length ? doubt : "the ring is closing");
  $("sum").textContent = `Seen by ${picture.broker.slice(0, 8)}, which asks all others while this page is open.`;
  const told = ring.filter((broker) => broker.published_per_s !== null);
  $("published").textContent = told.length ? short(sum(told, "published_per_s")) : "–";
  $("delivered").textContent = told.length ? short(sum(told, "delivered_per_s")) : "–";
  $("clients").textContent = ring.some((broker) => broker.clients !== null) ? short(sum(ring, "clients")) : "–";
  $("linkcount").textContent = picture.links.length;
  document.body.dataset.brokers = ring.length;
  document.title = `chordal – ${many(ring.length, "broker")}, ${health}`;
}

export function setHealth(health, words) {
  $("health").dataset.health = health;
  $("health").textContent = words;
}

// ── links ───────────────────────────────────────────────────────────────────────────────────

export function makeLegend(onToggle) {
  for (const name of CLASSES) {
    const button = make("button");
    button.setAttribute("aria-pressed", "true");
    button.dataset.class = name;
    button.innerHTML = `<svg viewBox="0 0 34 10"><path class="link ${name}" d="M2 5H32" stroke-width="${name === "secure" ? 3.4 : 2.2}" stroke-dasharray="${DASHES[name]}"/></svg>`;
    button.append(make("span", name), make("span", "", "count"));
    button.addEventListener("click", () => {
      const isShown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(isShown));
      onToggle(name, !isShown);
    });
    const item = make("li");
    item.append(button);
    $("legend").append(item);
  }
}

export function showLinks(picture) {
  for (const button of $("legend").querySelectorAll("button")) {
    const count = picture.links.filter((link) => link.class === button.dataset.class).length;
    button.querySelector(".count").textContent = count || "none";
  }
  const busy = picture.links.filter((link) => link.events_per_s > 0);
  busy.sort((one, other) => other.events_per_s - one.events_per_s);
  const rows = busy.slice(0, 5).map((link) => {
    const row = make("li");
    row.append(make("span", named(link)));
    row.append(make("span", `${short(link.events_per_s)} events / s`, "rate"));
    return row;
  });
  $("busiest").replaceChildren(...(rows.length ? rows : [make("li", "No events pass now.", "empty")]));
}

// ── incidents ───────────────────────────────────────────────────────────────────────────────

export function showIncidents(picture) {
  const addresses = new Map(picture.brokers.map((broker) => [broker.uid, broker.address]));
  const rows = picture.incidents.slice(0, 6).map((incident) => {
    const row = make("li");
    const what = make("div", "", "what");
    const who = make("span");
    const isDeath = incident.verdict === "broker_failed";
    const address = addresses.get(incident.uid);
    who.append(make("b", incident.uid.slice(0, 8)), isDeath ? " died" : " lost a link", address ? `, ${address}` : "");
    what.append(who, make("span", `${span(incident.ago_s)} ago`));
    const times = [`found in ${span(incident.detected_s)}`];
    if (isDeath) times.push(`ring whole after ${span(incident.repaired_s)}`);
    row.dataset.uid = incident.uid;
    row.append(what, make("div", times.join(", "), "times"));
    return row;
  });
  $("incidents").replaceChildren(...(rows.length ? rows : [make("li", "Nothing has failed.", "empty")]));
}

// ── brokers ─────────────────────────────────────────────────────────────────────────────────

export function showTable(picture) {
  if (!$("table").closest("details").open) return;
  $("table").replaceChildren(...picture.brokers.map((broker) => {
    const row = make("tr");
    const first = make("td");
    first.append(make("code", broker.uid.slice(0, 8)));
    row.append(first);
    for (const text of [
      broker.address ?? "–", broker.state, broker.degree, broker.clients ?? "–",
      broker.published_per_s === null ? "–" : short(broker.published_per_s), span(broker.uptime_s),
    ]) row.append(make("td", text));
    return row;
  }));
}

// ── pointing at one ─────────────────────────────────────────────────────────────────────────

const milliseconds = (value) => (value === null ? "–" : `${value < 10 ? value.toFixed(2) : value.toFixed(0)} ms`);
const bytes = (value) => (value >= 1e6 ? `${(value / 1e6).toFixed(1)} MB` : value >= 1e3 ? `${(value / 1e3).toFixed(1)} kB` : `${value} B`);

export function showTip(it, event, stage) {
  const tip = $("tip");
  if (!it || !(it.broker || it.link)) {
    tip.hidden = true;
    return;
  }
  const rows = it.broker ? brokerRows(it.broker) : linkRows(it.link);
  const list = make("dl");
  for (const [name, value] of rows) list.append(make("dt", name), make("dd", value));
  const title = it.broker ? `${it.broker.uid.slice(0, 8)}, ${it.broker.state}` : `${named(it.link)}, ${it.link.class}`;
  tip.replaceChildren(make("b", title), list);
  tip.hidden = false;
  const box = stage.getBoundingClientRect();
  const at = event.clientX === undefined || event.type === "focus" ? event.target.getBoundingClientRect() : { x: event.clientX, y: event.clientY };
  const x = Math.min(at.x - box.x + 16, box.width - tip.offsetWidth - 8);
  const y = Math.min(at.y - box.y + 16, box.height - tip.offsetHeight - 8);
  tip.style.left = `${Math.max(8, x)}px`;
  tip.style.top = `${Math.max(8, y)}px`;
}

function brokerRows(broker) {
  return [
    ["address", broker.address ?? "none"],
    ["reached at", broker.url.replace(/^chordals?:\/\//, "")],
    ["linked to", `${broker.degree} brokers`],
    ["clients", broker.clients ?? "–"],
    ["subscriptions", broker.subscriptions ?? "–"],
    ["published", broker.published_per_s === null ? "–" : `${short(broker.published_per_s)} / s`],
    ["delivered", broker.delivered_per_s === null ? "–" : `${short(broker.delivered_per_s)} / s`],
    ["up for", span(broker.uptime_s)],
  ];
}

function linkRows(link) {
  return [
    ["round trip", milliseconds(link.rtt_ms)],
    ["jitter", milliseconds(link.jitter_ms)],
    ["cost", milliseconds(link.cost_ms)],
    ["traffic", `${bytes(link.traffic)} / s`],
    ["queued", bytes(link.queued_bytes)],
    ["events", link.events_per_s === null ? "–" : `${short(link.events_per_s)} / s`],
    ["broke of late", link.resets ? link.resets.toFixed(1) : "no"],
    ...(link.failed ? [["verdict", "the link failed"]] : []),
    ...(link.demoted ? [["express", "too slow now"]] : []),
  ];
}
