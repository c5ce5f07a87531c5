import { areas, format, histogram, lines, make, nothing, percent, rows, seconds, table } from "./charts.js";

const EVERY = 3000;
const at = (id) => document.getElementById(id);
const state = { bandit: null, names: [], answer: null, timer: null, round: 0 };

class NoKey extends Error {}

const stored = (key) => { try { return sessionStorage.getItem(key); } catch { return null; } };
const store = (key, value) => { try { sessionStorage.setItem(key, value); } catch { /* a browser without storage: ask again */ } };

const get = async (path) => {
  const key = state.key ?? stored("treebandit-key");
  const answer = await fetch(path, { headers: key ? { Authorization: `Bearer ${key}` } : {}, cache: "no-store" });
  const body = await answer.json().catch(() => ({}));
  if (answer.status === 401 || answer.status === 403) throw new NoKey(body.error?.message ?? "");
  if (!answer.ok) throw new Error(body.error?.message ?? `the service answered ${answer.status}`);
  return body;
};

const only = (id) => { for (const each of ["ask", "empty", "board"]) at(each).hidden = each !== id; };
const complain = (text) => { at("problem").hidden = !text; at("problem").textContent = text; };

const choose = (name) => {
  if (state.bandit !== name) state.answer = state.others = null;
  state.bandit = name;
  history.replaceState(null, "", `#${encodeURIComponent(name)}`);
  look();
};

const chooser = (names) => {
  if (names.join("\n") !== state.names.join("\n")) {
    at("bandits").replaceChildren(...names.map((name) => {
      const button = make("button", { type: "button", title: name }, name);
      button.addEventListener("click", () => choose(name));
      return button;
    }));
    state.names = names;
  }
  [...at("bandits").children].forEach((button, i) => button.setAttribute("aria-pressed", String(names[i] === state.bandit)));
};

const look = async () => {
  clearTimeout(state.timer);
  const round = (state.round += 1);
  try {
    const names = (await get("v1/bandits")).bandits.map((each) => each.name);
    let wanted = state.bandit;
    if (wanted === null) try { wanted = decodeURIComponent(location.hash.slice(1)); } catch { wanted = ""; }
    const bandit = names.includes(wanted) ? wanted : names[0] ?? null;
    const answer = bandit === null ? null : await get(`v1/bandits/${encodeURIComponent(bandit)}/dashboard?span=${at("span").value}`);
    if (round !== state.round) return;  // another bandit was chosen in the meantime
    state.bandit = bandit;
    state.answer = answer;
    chooser(names);
    complain("");
    show();
  } catch (error) {
    if (round !== state.round) return;
    if (error instanceof NoKey) {
      complain(stored("treebandit-key") || state.key ? `This key does not do: ${error.message}` : "");
      only("ask");
      return;
    }
    complain(`${state.answer ? "What you see is old: " : ""}${error instanceof TypeError ? "the service does not answer" : error.message}. Trying again.`);
  }
  if (round === state.round) state.timer = setTimeout(look, document.hidden ? 5 * EVERY : EVERY);
};

const show = () => {
  const { answer } = state;
  document.title = answer ? `${answer.name} – treebandit` : "treebandit";
  if (!answer || answer.headline.verdict === "no decisions") {
    welcome(answer);
    only("empty");
  } else {
    only("board");
    board(answer);
  }
  document.body.dataset.drawn = String(Number(document.body.dataset.drawn ?? 0) + 1);
};

// A word that a shell takes as it is.
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

const welcome = (answer) => {
  const root = location.href.replace(/[#?].*$/, "").replace(/\/$/, "");
  const name = answer?.name ?? "shop";
  const url = `${root}/v1/bandits/${encodeURIComponent(name)}`;
  const key = state.key ?? stored("treebandit-key") ? ` -H "Authorization: Bearer $KEY"` : "";
  const steps = [];
  if (!answer) steps.push(["Make a bandit:", `curl -X PUT ${quoted(url)}${key} -d '{"wait": 3600, "holdout": 0.1}'`]);
  steps.push(["Make a decision:", `curl -X POST ${quoted(`${url}/decisions`)}${key} -d '{"id": "visit-1", "context": {"age": 31}, "arms": ["coffee", "tea"]}'`]);
  steps.push(["Tell its reward, when you know it:", `curl -X POST ${quoted(`${url}/decisions/visit-1/reward`)}${key} -d '{"value": 1.0}'`]);
  const span = at("span");
  const narrow = answer && span.value !== "all" ? [make("p", { class: "lead" }, `In the last ${span.selectedOptions[0].textContent}; older ones show with “all”.`)] : [];
  at("empty").className = "empty";
  const title = answer ? `No decisions of ${answer.name} yet` : "No bandits yet";
  const signature = title + span.value + key;
  if (at("empty").dataset.shown === signature) return;  // so that a line can be marked and copied
  at("empty").dataset.shown = signature;
  at("empty").replaceChildren(make("h1", {}, title), ...narrow,
    ...steps.flatMap(([says, line]) => [make("p", {}, says), make("pre", {}, make("code", {}, line))]),
    make("p", { class: "lead" }, "This page then fills by itself."));
};

const interval = (mean) => mean.low === null ? "" : `${format(mean.low)} to ${format(mean.high)}`;
const signed = (value) => `${value > 0 ? "+" : ""}${format(value)}`;

const headline = ({ headline: shown, description }) => {
  const box = at("headline");
  box.className = `headline ${shown.verdict}`;
  const fact = (name, mean, text) => make("div", {}, make("dt", {}, name), make("dd", {}, text, make("small", {}, interval(mean))));
  const facts = [fact("bandit", shown.policy, format(shown.policy.mean))];
  if (shown.verdict !== "no holdout") facts.push(fact("holdout", shown.holdout, format(shown.holdout.mean)));
  if (shown.difference.mean !== null) facts.push(fact("difference", shown.difference, signed(shown.difference.mean)));
  box.replaceChildren(
    make("div", {}, make("h1", {}, shown.title), make("p", {}, shown.detail), ...(description ? [make("p", { class: "note" }, description)] : [])),
    make("dl", { class: "facts" }, ...facts));
};

const board = (answer) => {
  headline(answer);
  at("alerts").replaceChildren(...answer.alerts.map((each) => make("p", { class: "alert" }, `${each.says} `, make("span", {}, each.do))));
  const times = [Date.parse(answer.since), Date.parse(answer.until)];
  const side = (which) => answer.rewards.map((each) => ({ time: Date.parse(each.time), value: each[which].mean, low: each[which].low, high: each[which].high }));
  const series = [{ kind: "policy", name: "bandit", points: side("policy") }, { kind: "holdout", name: "holdout", points: side("holdout") }];
  lines(at("rewards"), series.filter((each) => each.points.some((p) => p.value !== null)), { times, label: "mean reward per decision over time", height: 230 });
  if (answer.arms.length) {
    areas(at("arms"), answer.arms.map((arm, i) => ({
      kind: `c${arm.other ? 8 : i}`, name: arm.arm, text: percent(arm.share), points: arm.shares.map((value, j) => ({ time: times[0] + (j * (times[1] - times[0])) / (arm.shares.length - 1), value })),
    })), { times, label: "share of each arm in %" });
  } else nothing(at("arms"), "The holdout has made all decisions so far.");
  others(answer.others);
  exploration(answer, times);
  lateness(answer);
  if (answer.features.length) {
    rows(at("features"), answer.features.map((each) => ({ name: each.feature, value: each.share, text: percent(each.share), kind: "c0" })), { label: "features that decide" });
  } else nothing(at("features"), "No feature stands out yet.");
  at("latency-note").textContent = `Of this bandit and this process, in the last ${seconds(answer.latency_seconds)}.`;
  if (answer.latency.length) {
    table(at("latency"), ["request", "half within", "95 %", "99 %", "requests"], answer.latency.map((each) =>
      [each.operation, seconds(each.half), seconds(each.p95), seconds(each.p99), each.requests.toLocaleString("en")]));
  } else nothing(at("latency"), "No requests in the last minutes.");
  at("versions-note").textContent = `Version ${answer.version} decides. ${answer.behind ? `${answer.behind.toLocaleString("en")} of the log's entries came after what it has learned.` : "It has learned the whole log."}`;
  if (answer.versions.length) {
    table(at("versions"), ["version", "published", "rows", "rebuilds", "took"], answer.versions.slice(0, 6).map((each) =>
      [String(each.version), new Date(each.time).toLocaleTimeString(), each.rows.toLocaleString("en"), String(each.rebuilds), each.rebuilds ? seconds(each.rebuild_seconds) : "–"]));
  } else nothing(at("versions"), "No model yet: the first rewards make one.");
  at("foot").textContent = `${answer.decisions.toLocaleString("en")} decisions${answer.capped ? ", the newest ones," : ""} since ${new Date(answer.since).toLocaleString()}; ${answer.awaiting.toLocaleString("en")} await their reward. Mode ${answer.mode}. As of ${new Date(answer.time).toLocaleTimeString()}.`;
};

const others = (shown) => {
  if (JSON.stringify(shown) === state.others) return;  // they change seldom, and somebody may be reading the reasons
  state.others = JSON.stringify(shown);
  at("others-note").textContent = shown.decisions ? `Per decision, with 95 % interval, from the newest ${shown.decisions.toLocaleString("en")} decisions.` : "";
  if (!shown.policies.length) return nothing(at("others"), shown.problem ?? "Nothing to show yet.");
  const mark = shown.policies.find((each) => each.policy === "what was done")?.value ?? null;
  const known = shown.policies.filter((each) => each.value !== null);
  rows(at("others"), known.map((each) => ({ name: each.policy, value: each.value, low: each.low, high: each.high, text: format(each.value), kind: each.policy === "what was done" ? "policy" : "holdout" })), { label: "off-policy estimates", mark });
  for (const each of shown.policies.filter((one) => one.value === null)) {
    at("others").append(make("details", { class: "note" }, make("summary", {}, `${each.policy}: not enough evidence`), each.refusal));
  }
  for (const each of [...known, { policy: "the log", warnings: shown.warnings }].filter((one) => one.warnings.length)) {
    at("others").append(make("details", { class: "note warning" }, make("summary", {}, `${each.policy}: doubtful`), each.warnings.join("; ")));
  }
};

const exploration = (answer, times) => {
  const shown = answer.exploration;
  if (!shown.length) { at("exploration-note").textContent = ""; return nothing(at("exploration"), "The bandit has not decided by itself yet."); }
  at("exploration-note").textContent = `The floor is ${percent(answer.floor)}.`;
  const of = (which) => shown.map((each) => ({ time: Date.parse(each.time), value: each[which] }));
  const last = (which) => percent(shown.at(-1)[which]);
  lines(at("exploration"), [
    { kind: "c0", name: "probability of the choice", text: last("probability"), points: of("probability") },
    { kind: "c1", name: "not the best arm", text: last("not_best"), points: of("not_best") },
    { kind: "c8", name: "by the floor", text: last("by_floor"), points: of("by_floor") },
  ], { times, label: "exploration in %", low: 0, high: 1 });
};

const lateness = (answer) => {
  const shown = answer.lateness;
  if (!shown.rewards) { at("lateness-note").textContent = ""; return nothing(at("lateness"), "No rewards yet."); }
  at("lateness-note").textContent = `Half within ${seconds(shown.median)}, nine in ten within ${seconds(shown.most)}; ${shown.late ? `${percent(shown.late / shown.rewards)} after the wait of ${seconds(answer.wait)}` : `none after the wait of ${seconds(answer.wait)}`}.`;
  histogram(at("lateness"), shown.bins, { label: "how late rewards come", edge: answer.wait });
};

at("span").addEventListener("change", () => { store("treebandit-span", at("span").value); look(); });
at("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  state.key = at("key").value.trim();
  store("treebandit-key", state.key);
  at("key").value = "";
  look();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
let resized = null;
addEventListener("resize", () => { clearTimeout(resized); state.others = null; resized = setTimeout(() => state.answer && show(), 150); });
if ([...at("span").options].some((each) => each.value === stored("treebandit-span"))) at("span").value = stored("treebandit-span");
look();
