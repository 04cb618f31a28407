// How many brokers a graph may lose at once, whichever they are, and still hang together: its vertex
// connectivity less one. From one broker with the fewest links, disjoint paths are counted to all
// that it is not linked to, and between those of its neighbours that are not linked to each other
// (Esfahanian and Hakimi). In a large ring this takes a second, so it runs beside the page.

addEventListener("message", ({ data }) => postMessage({ key: data.key, survives: survives(data.uids, data.links) }));

export function survives(uids, links) {
  const number = new Map(uids.map((uid, at) => [uid, at]));
  const near = uids.map(() => new Set());
  for (const { a, b } of links) {
    const [i, j] = [number.get(a), number.get(b)];
    if (i === undefined || j === undefined || i === j) continue;
    near[i].add(j);
    near[j].add(i);
  }
  if (uids.length < 2) return 0;
  let least = 0;
  near.forEach((them, at) => { if (them.size < near[least].size) least = at; });
  let found = near[least].size;
  if (found === uids.length - 1) return found - 1;
  for (let other = 0; other < uids.length && found > 0; other += 1) {
    if (other !== least && !near[least].has(other)) found = Math.min(found, paths(near, least, other, found));
  }
  const beside = [...near[least]];
  for (let i = 0; i < beside.length && found > 0; i += 1) {
    for (let j = i + 1; j < beside.length; j += 1) {
      if (!near[beside[i]].has(beside[j])) found = Math.min(found, paths(near, beside[i], beside[j], found));
    }
  }
  return Math.max(0, found - 1);
}

// Paths from one broker to another that share no broker, up to `most`. Each broker is two nodes, one
// to come in by (2i) and one to go out by (2i + 1), and between them only one path passes.
function paths(near, from, to, most) {
  const flow = new Set();
  const key = (a, b) => a * 2 * near.length + b;
  const open = (a, b) => !flow.has(key(a, b));
  let count = 0;
  while (count < most) {
    const came = new Map([[2 * from + 1, -1]]);
    const queue = [2 * from + 1];
    for (let head = 0; head < queue.length && !came.has(2 * to); head += 1) {
      const node = queue[head];
      const at = node >> 1;
      const reach = (next) => { if (!came.has(next)) { came.set(next, node); queue.push(next); } };
      if (node & 1) {
        for (const other of near[at]) if (open(node, 2 * other)) reach(2 * other);
        if (flow.has(key(2 * at, node))) reach(2 * at);
      } else {
        if (open(node, node + 1)) reach(node + 1);
        for (const other of near[at]) if (flow.has(key(2 * other + 1, node))) reach(2 * other + 1);
      }
    }
    if (!came.has(2 * to)) break;
    for (let node = 2 * to; came.get(node) !== -1; node = came.get(node)) {
      const before = came.get(node);
      if (!flow.delete(key(node, before))) flow.add(key(before, node));
    }
    count += 1;
  }
  return count;
}
