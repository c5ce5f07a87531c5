"use strict";
(() => {
  const maps = JSON.parse(document.getElementById("maps").textContent);
  const REACH = 9;
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);

  const distance = ([a, b, c, d], x, y) => {
    const [u, v] = [c - a, d - b];
    const along = Math.max(0, Math.min(1, ((x - a) * u + (y - b) * v) / (u * u + v * v || 1)));
    return Math.hypot(x - a - along * u, y - b - along * v);
  };

  const told = ([edge, times, estimate], edges, panel) => {
    const [, , , , name, limit, expected] = edges[edge];
    const often = panel === 0 ? `on the best path ${times} % of the day` : `driven ${times.toLocaleString("en")} times`;
    const guess = estimate === null ? "" : `, estimated ${estimate} s`;
    return `${name}: ${limit} km/h, ${often}\nat 8 h expected ${expected} s${guess}`;
  };

  const leave = (svg) => {
    tip.hidden = true;
    svg.querySelector(".pointed").removeAttribute("d");
  };

  const point = (svg, event) => {
    const { edges, panels } = maps[+svg.dataset.map];
    const panel = +svg.dataset.panel;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const near = panels[panel].map((row) => [distance(edges[row[0]], at.x, at.y), row]);
    const least = near.reduce((best, [far]) => Math.min(best, far), Infinity);
    if (least > REACH) return leave(svg);
    const rows = near.filter(([far]) => far < least + 0.01).slice(0, 4).map(([, row]) => row);
    const [a, b, c, d] = edges[rows[0][0]];
    svg.querySelector(".pointed").setAttribute("d", `M${a} ${b}L${c} ${d}`);
    tip.textContent = rows.map((row) => told(row, edges, panel)).join("\n");
    tip.hidden = false;
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
  };

  for (const svg of document.querySelectorAll("svg[data-map]")) {
    svg.addEventListener("pointermove", (event) => point(svg, event));
    svg.addEventListener("pointerleave", () => leave(svg));
  }
})();
