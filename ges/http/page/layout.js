// Where brokers, links and units stand. Brokers stand evenly, in ring order from the top, clockwise:
// their ids would leave some too close to be told apart. What has fallen off stands outside.

const RADIUS = 372;
const WIDE_RADIUS = 430; // where brokers have no names beside them
const FALL = 46; // outward
const UNIT_RADIUS = 474;
const UNIT_STEP = 24;
const TURN = 2 * Math.PI;

export const onRing = (broker) => broker.state !== "dead" && broker.state !== "left";

// Angles (from the top, clockwise) and radii by uid.
export function places(brokers, isWide) {
  const radius = isWide ? WIDE_RADIUS : RADIUS;
  const ring = brokers.filter(onRing);
  const found = new Map();
  ring.forEach((broker, at) => found.set(broker.uid, { angle: (at * TURN) / ring.length, radius, rank: at }));
  for (const broker of brokers) {
    if (onRing(broker)) continue;
    // Between the two that stood beside it.
    const after = ring.findIndex((other) => other.place > broker.place);
    const at = after < 0 ? ring.length : after;
    found.set(broker.uid, { angle: ring.length ? ((at - 0.5) * TURN) / ring.length : 0, radius: radius + (isWide ? FALL / 2 : FALL), rank: -1 });
  }
  return found;
}

export const point = (angle, radius) => [radius * Math.sin(angle), -radius * Math.cos(angle)];

// The shorter way from one angle to another, between -half a turn and half a turn.
export function turned(from, to) {
  return ((((to - from + Math.PI) % TURN) + TURN) % TURN) - Math.PI;
}

const SIDE = { normal: 0, express: -1, secure: 1 };

// A link as a curve: next neighbours follow the circle, all others bend towards its centre.
export function curve(a, b, linkClass, isNext, spread) {
  const way = turned(a.angle, b.angle);
  const middle = a.angle + way / 2;
  const flat = Math.cos(way / 2);
  const radius = Math.max(a.radius, b.radius);
  const reach = isNext && Math.abs(way) < 1.9 ? radius / Math.max(flat, 0.5) : radius * flat * 0.8;
  const [cx, cy] = point(middle, reach + SIDE[linkClass] * spread * (isNext ? 0.6 : 1));
  const [ax, ay] = point(a.angle, a.radius);
  const [bx, by] = point(b.angle, b.radius);
  return {
    path: `M${ax.toFixed(1)} ${ay.toFixed(1)}Q${cx.toFixed(1)} ${cy.toFixed(1)} ${bx.toFixed(1)} ${by.toFixed(1)}`,
    // Where a number is written beside it; those of long ones would meet at the centre.
    middle: along(Math.abs(way) > 1.9 ? 0.27 : 0.5, [ax, ay], [cx, cy], [bx, by]),
  };
}

function along(t, a, c, b) {
  return [0, 1].map((i) => (1 - t) * (1 - t) * a[i] + 2 * t * (1 - t) * c[i] + t * t * b[i]);
}

// Units as arcs: runs of brokers beside each other that share the start of their addresses.
// Level 1 is the cluster; further out are super-clusters, where there is more than one.
export function units(brokers) {
  const ring = brokers.filter(onRing);
  const arcs = [];
  for (const level of [1, 2, 3]) {
    const names = ring.map((broker) => (broker.address ? broker.address.split(".").slice(0, 4 - level).join(".") : null));
    const different = new Set(names.filter((name) => name !== null));
    if (!different.size || (level > 1 && different.size < 2)) continue;
    let start = names.findIndex((name, at) => name !== names[(at + names.length - 1) % names.length]);
    const isWhole = start < 0;
    start = Math.max(0, start);
    for (let at = 0; at < names.length; ) {
      const name = names[(start + at) % names.length];
      let end = at;
      while (end < names.length && names[(start + end) % names.length] === name) end += 1;
      if (name !== null) arcs.push(arc(level, name, start + at, start + end - 1, names.length, isWhole));
      at = end;
    }
  }
  return arcs;
}

function arc(level, name, first, last, count, isWhole) {
  const radius = UNIT_RADIUS + (level - 1) * UNIT_STEP;
  const step = TURN / count;
  const label = (angle) => point(angle, radius);
  if (isWhole) {
    const half = (x) => `A${radius} ${radius} 0 0 1 ${x} 0`;
    return { name, path: `M${-radius} 0${half(radius)}${half(-radius)}`, label: label(Math.PI) };
  }
  const from = (first - 0.36) * step;
  const to = (last + 0.36) * step;
  const [ax, ay] = point(from, radius);
  const [bx, by] = point(to, radius);
  const large = to - from > Math.PI ? 1 : 0;
  return {
    name,
    path: `M${ax.toFixed(1)} ${ay.toFixed(1)}A${radius} ${radius} 0 ${large} 1 ${bx.toFixed(1)} ${by.toFixed(1)}`,
    label: label((from + to) / 2),
  };
}
