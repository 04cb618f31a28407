// The drawing: brokers and links are kept from one picture to the next, and glide to their places.

import { curve, places, point, turned, units } from "./layout.js";

const SVG = "http://www.w3.org/2000/svg";
const MANY = 40; // brokers: beyond that there are no names, and lines are thin
const FEW = 16; // up to that there is room for whole addresses, and for rates beside links
const GLIDE_MS = 110;
const LABELLED = 6; // links with their rates beside them, in small rings

const svg = (name, attributes = {}, parent = null) => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (parent) parent.append(made);
  return made;
};

export class Ring {
  constructor(root, onPoint) {
    this.root = root;
    this.layer = (name) => root.querySelector(`#${name}`);
    this.onPoint = onPoint;
    this.brokers = new Map();
    this.links = new Map();
    this.hidden = new Set();
    this.isStill = matchMedia("(prefers-reduced-motion: reduce)");
    this.frame = 0;
  }

  show(picture) {
    const spots = places(picture.brokers, picture.brokers.length > MANY);
    this.count = [...spots.values()].filter((spot) => spot.rank >= 0).length;
    this.root.classList.toggle("many", picture.brokers.length > MANY);
    this.own = picture.broker;
    this.showBrokers(picture.brokers, spots);
    this.showLinks(picture.links);
    this.showUnits(picture.brokers);
    if (!this.frame) this.frame = requestAnimationFrame((time) => this.glide(time, time));
  }

  hide(linkClass, isHidden) {
    if (isHidden) this.hidden.add(linkClass); else this.hidden.delete(linkClass);
    for (const link of this.links.values()) this.dress(link);
  }

  // ── brokers ───────────────────────────────────────────────────────────────────────────────

  showBrokers(brokers, spots) {
    const gone = new Set(this.brokers.keys());
    const size = brokers.length > 120 ? 4.5 : brokers.length > MANY ? 6.5 : brokers.length > 16 ? 11 : 15;
    for (const data of brokers) {
      gone.delete(data.uid);
      const spot = spots.get(data.uid);
      const broker = this.brokers.get(data.uid) ?? this.addBroker(data, spot);
      broker.data = data;
      broker.target = spot;
      broker.group.dataset.state = data.state;
      broker.dot.setAttribute("r", size);
      broker.own.setAttribute("r", data.uid === this.own ? size + 5 : 0);
      broker.mark.setAttribute("d", cross(size * 0.45));
      // The arc around it names the cluster, so the last number says which broker it is.
      const isWhole = brokers.length <= FEW || data.state === "dead" || data.state === "left";
      broker.text.textContent = isWhole ? nameOf(data) : data.address?.split(".").pop() ?? nameOf(data);
      broker.size = size;
    }
    for (const uid of gone) {
      this.brokers.get(uid).group.remove();
      this.brokers.delete(uid);
    }
  }

  addBroker(data, spot) {
    const group = svg("g", { class: "broker", tabindex: "0", "data-uid": data.uid }, this.layer("brokers"));
    const broker = {
      group,
      own: svg("circle", { class: "own" }, group),
      dot: svg("circle", { class: "dot" }, group),
      mark: svg("path", { class: "mark" }, group),
      text: svg("text", {}, group),
      now: { ...spot },
    };
    this.listen(group, () => ({ broker: this.brokers.get(data.uid)?.data }));
    this.brokers.set(data.uid, broker);
    return broker;
  }

  // ── links ─────────────────────────────────────────────────────────────────────────────────

  showLinks(links) {
    const gone = new Set(this.links.keys());
    for (const data of links) {
      if (!this.brokers.has(data.a) || !this.brokers.has(data.b)) continue;
      const key = `${data.a} ${data.b} ${data.class}`;
      gone.delete(key);
      const link = this.links.get(key) ?? this.addLink(key, data);
      link.data = data;
      this.dress(link);
    }
    for (const key of gone) {
      const link = this.links.get(key);
      link.line.remove();
      link.hit.remove();
      this.links.delete(key);
    }
    this.labelRates();
  }

  addLink(key, data) {
    const layer = this.layer(`links-${data.class}`); // those there are few of lie on top
    const link = { line: svg("path", {}, layer), hit: svg("path", { class: "hit" }, layer) };
    this.listen(link.hit, () => ({ link: this.links.get(key)?.data }));
    this.links.set(key, link);
    return link;
  }

  dress(link) {
    const { data } = link;
    const many = this.root.classList.contains("many");
    const busy = Math.log2(1 + (data.events_per_s ?? 0));
    const classes = ["link", data.class];
    if (data.failed) classes.push("failed");
    if (data.demoted) classes.push("demoted");
    if (link.isLit) classes.push("lit");
    link.line.setAttribute("class", classes.join(" "));
    const base = data.class === "secure" ? 3 : 1.8;
    link.line.setAttribute("stroke-width", ((many ? base * 0.55 : base) + Math.min(busy * 0.45, 5)).toFixed(2));
    const display = this.hidden.has(data.class) ? "none" : "";
    link.line.style.display = display;
    link.hit.style.display = display;
  }

  labelRates() {
    const layer = this.layer("rates");
    layer.replaceChildren();
    for (const link of this.links.values()) link.label = null;
    if (this.brokers.size > FEW) return;
    const busy = [...this.links.values()].filter((link) => link.data.events_per_s >= 1 && !this.hidden.has(link.data.class));
    busy.sort((one, other) => other.data.events_per_s - one.data.events_per_s);
    for (const link of busy.slice(0, LABELLED)) {
      link.label = svg("text", { class: "rate-label" }, layer);
      link.label.textContent = `${short(link.data.events_per_s)}/s`;
      if (link.middle) setPlace(link.label, link.middle);
    }
  }

  showUnits(brokers) {
    const layer = this.layer("units");
    layer.replaceChildren();
    for (const arc of units(brokers)) {
      svg("path", { class: "unit", d: arc.path, "stroke-width": 4, "data-unit": arc.name }, layer);
      const name = svg("text", { class: "unit-name", x: arc.label[0].toFixed(1), y: arc.label[1].toFixed(1) }, layer);
      name.textContent = arc.name;
    }
  }

  // ── motion ────────────────────────────────────────────────────────────────────────────────

  glide(time, before) {
    const share = this.isStill.matches ? 1 : 1 - Math.exp(-Math.max(0, time - before) / GLIDE_MS);
    let isMoving = false;
    for (const broker of this.brokers.values()) {
      const { now, target } = broker;
      const turn = turned(now.angle, target.angle);
      const rise = target.radius - now.radius;
      const isThere = Math.abs(turn) < 0.0005 && Math.abs(rise) < 0.2;
      now.angle = isThere ? target.angle : now.angle + turn * share;
      now.radius = isThere ? target.radius : now.radius + rise * share;
      isMoving ||= !isThere;
      const [x, y] = point(now.angle, now.radius);
      broker.group.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      setPlace(broker.text, point(now.angle, broker.size + 12));
      const side = Math.sin(now.angle);
      broker.text.setAttribute("text-anchor", Math.abs(side) < 0.3 ? "middle" : side > 0 ? "start" : "end");
    }
    const spread = this.root.classList.contains("many") ? 14 : 44;
    for (const link of this.links.values()) {
      const [a, b] = [this.brokers.get(link.data.a), this.brokers.get(link.data.b)];
      if (!a || !b) continue;
      const steps = Math.abs(a.target.rank - b.target.rank);
      const isNext = a.target.rank >= 0 && b.target.rank >= 0 && Math.min(steps, this.count - steps) === 1;
      const { path, middle } = curve(a.now, b.now, link.data.class, isNext, spread);
      link.line.setAttribute("d", path);
      link.hit.setAttribute("d", path);
      link.middle = middle;
      if (link.label) setPlace(link.label, middle);
    }
    this.frame = isMoving ? requestAnimationFrame((next) => this.glide(next, time)) : 0;
  }

  // ── pointing ──────────────────────────────────────────────────────────────────────────────

  listen(element, what) {
    const on = (event) => { const it = what(); this.light(it); this.onPoint(it, event); };
    const off = () => { this.light({}); this.onPoint(null); };
    element.addEventListener("pointerenter", on);
    element.addEventListener("pointermove", on);
    element.addEventListener("pointerleave", off);
    element.addEventListener("focus", on);
    element.addEventListener("blur", off);
  }

  light({ broker, link }) {
    this.root.classList.toggle("chosen", Boolean(broker || link));
    for (const each of this.links.values()) {
      const { data } = each;
      each.isLit = Boolean((broker && (data.a === broker.uid || data.b === broker.uid)) || (link && data === link));
      this.dress(each);
    }
    for (const [uid, each] of this.brokers) {
      const isEnd = link && (link.a === uid || link.b === uid);
      each.group.classList.toggle("lit", Boolean(isEnd || broker?.uid === uid));
    }
  }
}

export const nameOf = (broker) => broker.address ?? broker.uid.slice(0, 6);

export function short(rate) {
  if (rate >= 1e6) return `${(rate / 1e6).toFixed(1)} M`;
  if (rate >= 1e4) return `${Math.round(rate / 1e3)} k`;
  return rate >= 10 || Number.isInteger(rate) ? `${Math.round(rate)}` : rate.toFixed(1);
}

const cross = (r) => `M${-r} ${-r}L${r} ${r}M${r} ${-r}L${-r} ${r}`;

function setPlace(element, [x, y]) {
  element.setAttribute("x", x.toFixed(1));
  element.setAttribute("y", y.toFixed(1));
}
