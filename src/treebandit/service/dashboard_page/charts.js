// Small charts as SVG. Texts are always set as text: names come from users.
const SVG = "http://www.w3.org/2000/svg";

export const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

const draw = (tag, attributes = {}, ...children) => {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

export const format = (value, digits = 3) => {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size > 0 && size < 1e-4) return value.toExponential(1);
  return String(Number(value.toPrecision(digits)));
};
export const percent = (value) => `${(100 * value).toFixed(value < 0.0995 ? 1 : 0)} %`;
export const seconds = (value) => {
  if (value === null || value === undefined) return "–";
  if (value < 1) return `${format(1000 * value, 2)} ms`;
  if (value < 120) return `${format(value, 2)} s`;
  if (value < 7200) return `${format(value / 60, 2)} min`;
  return value < 172800 ? `${format(value / 3600, 2)} h` : `${format(value / 86400, 2)} d`;
};

const ticks = (low, high, count) => {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((each) => each * power >= rough * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) found.push(at);
  return found;
};

const clock = (moment, span) => {
  const date = new Date(moment);
  if (span > 2 * 86400e3) return date.toLocaleDateString(undefined, { month: "short", day: "numeric" });
  const parts = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  return date.toLocaleTimeString(undefined, span < 600e3 ? { ...parts, second: "2-digit" } : parts);
};

// The plane of a chart over time: axes, grid, and the two scales.
const plane = (box, width, height, times, low, high, label) => {
  const left = 40, right = 8, top = 8, bottom = 20;
  const [from, to] = times;
  const x = (time) => left + ((time - from) / (to - from || 1)) * (width - left - right);
  const y = (value) => height - bottom - ((value - low) / (high - low || 1)) * (height - top - bottom);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const at of ticks(low, high, 4)) {
    svg.append(draw("line", { class: "grid", x1: left, x2: width - right, y1: y(at), y2: y(at) }));
    svg.append(draw("text", { x: left - 6, y: y(at) + 4, "text-anchor": "end" }, label.endsWith("%") ? `${Math.round(100 * at)}` : format(at)));
  }
  const count = width > 500 ? 5 : 3;
  for (let i = 0; i < count; i += 1) {
    const time = from + ((to - from) * i) / (count - 1);
    const anchor = i === 0 ? "start" : i === count - 1 ? "end" : "middle";
    svg.append(draw("text", { x: x(time), y: height - 4, "text-anchor": anchor }, clock(time, to - from)));
  }
  box.replaceChildren(svg);
  return { svg, x, y };
};

// Runs of points that follow each other: a gap in the data is a gap in the line.
const runs = (points) => {
  const found = [[]];
  for (const point of points) {
    if (point.value === null || point.value === undefined) found.push([]);
    else found.at(-1).push(point);
  }
  return found.filter((run) => run.length);
};

export const widthOf = (box) => Math.max(260, Math.round(box.clientWidth || 360));

// series: [{kind, name, points: [{time, value, low, high}]}]
export const lines = (box, series, { times, label, height = 190, low = null, high = null }) => {
  const width = widthOf(box);
  const all = series.flatMap((each) => each.points.flatMap((p) => [p.value, p.low, p.high])).filter((v) => v !== null && v !== undefined);
  if (!all.length) return nothing(box, "Nothing to show yet.");
  let least = low ?? Math.min(...all), most = high ?? Math.max(...all);
  if (least === most) { least -= 0.5; most += 0.5; }
  const values = series.flatMap((each) => each.points.map((p) => p.value)).filter((v) => v !== null && v !== undefined);
  // Intervals of few decisions are wide; they are cut off, so that the lines can be seen.
  const spread = Math.max(...values) - Math.min(...values) || Math.abs(values[0]) || 1;
  if (low === null) least = Math.max(least, Math.min(...values) - spread);
  if (high === null) most = Math.min(most, Math.max(...values) + spread);
  const { svg, x, y } = plane(box, width, height, times, least, most, label);
  const inside = (value) => y(Math.min(most, Math.max(least, value)));
  for (const { kind, points } of series) {
    for (const run of runs(points.map((p) => ({ ...p, value: p.low ?? null })))) {
      const up = run.map((p) => `${x(p.time)},${inside(p.high)}`);
      const down = run.map((p) => `${x(p.time)},${inside(p.low)}`).reverse();
      svg.append(draw("polygon", { class: `band ${kind}`, points: [...up, ...down].join(" ") }));
    }
  }
  for (const { kind, points } of series) {
    for (const run of runs(points)) {
      if (run.length === 1) svg.append(draw("circle", { class: `fill ${kind}`, cx: x(run[0].time), cy: y(run[0].value), r: 2.5 }));
      else svg.append(draw("polyline", { class: `line ${kind}`, points: run.map((p) => `${x(p.time)},${y(p.value)}`).join(" ") }));
    }
  }
  legend(box, series);
};

// Shares that add up to one, as areas over each other.
export const areas = (box, series, { times, label, height = 190 }) => {
  const { svg, x, y } = plane(box, widthOf(box), height, times, 0, 1, label);
  const length = series[0].points.length;
  const base = new Array(length).fill(0);
  for (const { kind, points } of series) {
    const known = points.map((p, i) => ({ ...p, from: base[i], to: base[i] + (p.value ?? 0) }));
    for (const run of runs(known)) {
      const wide = run.length > 1 ? run : [run[0], { ...run[0], time: run[0].time + (times[1] - times[0]) / length }];
      const up = wide.map((p) => `${x(p.time)},${y(p.to)}`);
      const down = wide.map((p) => `${x(p.time)},${y(p.from)}`).reverse();
      svg.append(draw("polygon", { class: `area ${kind}`, points: [...up, ...down].join(" ") }));
    }
    known.forEach((p, i) => { base[i] = p.to; });
  }
  legend(box, series);
};

// rows: [{name, value, low, high, text, kind}]: bars where there is no interval, else a point with whiskers.
export const rows = (box, given, { label, mark = null }) => {
  const width = widthOf(box), line = 26;
  const shown = given.filter((each) => each.value !== null && each.value !== undefined);
  const all = shown.flatMap((each) => [each.value, each.low ?? each.value, each.high ?? each.value]);
  const whiskers = shown.some((each) => each.low !== null && each.low !== undefined);
  let least = whiskers ? Math.min(...all) : 0, most = Math.max(...all, whiskers ? -Infinity : 1e-9);
  if (least === most) { least -= 0.5; most += 0.5; }
  const names = Math.min(150, width * 0.36), end = 52;
  const x = (value) => names + 8 + ((value - least) / (most - least)) * (width - names - end - 16);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${line * shown.length + 4}`, role: "img", "aria-label": label });
  if (mark !== null && mark >= least && mark <= most) svg.append(draw("line", { class: "zero", x1: x(mark), x2: x(mark), y1: 0, y2: line * shown.length }));
  shown.forEach((each, i) => {
    const y = i * line + line / 2;
    const letters = Math.floor(names / 6.3);
    const name = draw("text", { class: "name", x: 0, y: y + 4 }, each.name.length > letters ? `${each.name.slice(0, letters - 1)}…` : each.name);
    name.append(draw("title", {}, each.name));
    svg.append(name);
    if (whiskers) {
      if (each.low !== null && each.low !== undefined) svg.append(draw("line", { class: `whisker ${each.kind}`, x1: x(each.low), x2: x(each.high), y1: y, y2: y }));
      svg.append(draw("circle", { class: `fill ${each.kind}`, cx: x(each.value), cy: y, r: 4 }));
    } else {
      svg.append(draw("rect", { class: `fill ${each.kind}`, x: x(0), y: y - 7, width: Math.max(1, x(each.value) - x(0)), height: 14, rx: 2 }));
    }
    svg.append(draw("text", { x: width, y: y + 4, "text-anchor": "end" }, each.text));
  });
  box.replaceChildren(svg);
};

// bins: [[upper edge, count]]
export const histogram = (box, bins, { label, edge, height = 150 }) => {
  const width = widthOf(box), bottom = 20, most = Math.max(...bins.map(([, count]) => count));
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const step = width / bins.length, every = Math.ceil(bins.length / Math.max(3, Math.floor(width / 62)));
  bins.forEach(([upper, count], i) => {
    const tall = (count / most) * (height - bottom - 6);
    const late = edge !== null && upper > edge * 1.999;
    const bar = draw("rect", { class: `fill ${late ? "c8" : "c0"}`, x: i * step + 1, y: height - bottom - tall, width: Math.max(1, step - 2), height: tall, rx: 1 });
    bar.append(draw("title", {}, `up to ${seconds(upper)}: ${count}`));
    svg.append(bar);
    if ((bins.length - 1 - i) % every === 0) {
      svg.append(draw("text", { x: (i + 1) * step - 1, y: height - 4, "text-anchor": "end" }, `≤ ${seconds(upper)}`));
    }
  });
  box.replaceChildren(svg);
};

const legend = (box, series) => {
  const list = make("ul", { class: "key" });
  for (const { kind, name, text } of series) {
    const swatch = draw("svg", { viewBox: "0 0 10 10", class: kind, "aria-hidden": "true" }, draw("rect", { class: "fill", width: 10, height: 10, rx: 2 }));
    list.append(make("li", {}, swatch, make("span", {}, name), ...(text ? [make("b", {}, text)] : [])));
  }
  box.append(list);
};

export const table = (box, heads, lines_) => {
  const head = make("tr", {}, ...heads.map((each) => make("th", { scope: "col" }, each)));
  const body = lines_.map(([first, ...rest]) => make("tr", {}, make("th", { scope: "row" }, first), ...rest.map((each) => make("td", {}, each))));
  box.replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
};

export const nothing = (box, text) => box.replaceChildren(make("p", { class: "nothing" }, text));
