"use strict";
(async () => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const specs = read("specs");
  const datasets = read("datasets");
  const buttons = [...document.querySelectorAll(".legend button[data-agent]")];
  const all = document.querySelector(".legend .all");
  const views = [];
  const hidden = new Set();

  const signal = (name, value) => Promise.all(views.map((view) => view.signal(name, value).runAsync()));

  const show = () => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(!hidden.has(button.dataset.agent)));
    all.hidden = hidden.size === 0;
    for (const chart of document.querySelectorAll("[data-owner]")) chart.hidden = hidden.has(chart.dataset.owner);
    return signal("hidden", [...hidden]);
  };

  for (const button of buttons) {
    const agent = button.dataset.agent;
    button.addEventListener("click", () => {
      if (!hidden.delete(agent)) hidden.add(agent);
      show();
    });
    button.addEventListener("mouseenter", () => signal("focus", hidden.has(agent) ? "" : agent));
    button.addEventListener("mouseleave", () => signal("focus", ""));
  }
  all.addEventListener("click", () => { hidden.clear(); show(); });

  const options = {
    renderer: "svg",
    actions: { export: true, source: false, compiled: false, editor: false },
  };
  for (const [id, spec] of Object.entries(specs)) {
    const drawn = await vegaEmbed(document.getElementById(id), { ...spec, datasets }, options);
    views.push(drawn.view);
  }
  if (hidden.size) await show();
  document.body.dataset.drawn = String(views.length);
})();
