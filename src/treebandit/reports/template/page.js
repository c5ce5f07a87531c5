"use strict";
(async () => {
  const panels = JSON.parse(document.getElementById("panels").textContent);
  const buttons = [...document.querySelectorAll(".legend button[data-agent]")];
  const all = document.querySelector(".legend .all");
  const views = [];
  const hidden = new Set();

  const tell = (signal, value) => Promise.all(views.map((view) => view.signal(signal, value).runAsync()));

  const show = () => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(!hidden.has(button.dataset.agent)));
    all.hidden = hidden.size === 0;
    for (const map of document.querySelectorAll("[data-map-agent]")) map.hidden = hidden.has(map.dataset.mapAgent);
    return tell("hidden", [...hidden]);
  };

  for (const button of buttons) {
    const agent = button.dataset.agent;
    button.addEventListener("click", () => {
      if (!hidden.delete(agent)) hidden.add(agent);
      show();
    });
    button.addEventListener("mouseenter", () => tell("focus", hidden.has(agent) ? "" : agent));
    button.addEventListener("mouseleave", () => tell("focus", ""));
  }
  all.addEventListener("click", () => { hidden.clear(); show(); });

  const options = {
    renderer: "svg",
    actions: { export: true, source: false, compiled: false, editor: false },
  };
  for (const [id, spec] of Object.entries(panels)) {
    const drawn = await vegaEmbed(document.getElementById(id), spec, options);
    views.push(drawn.view);
  }
  if (hidden.size) await show();
  document.body.dataset.drawn = String(views.length);
})();
