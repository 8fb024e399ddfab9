"use strict";
// Fills the page from the JSON in it: the list of clauses with its filters, and traces as two swim-lanes.

const data = JSON.parse(document.getElementById("data").textContent);

function make(tag, attributes = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}

// --- traces ------------------------------------------------------------------------------------------

function parsed(text) {
  try { return JSON.parse(text); } catch { return undefined; }
}

function label(record) {
  if (record.kind === "text") {
    const body = parsed(record.text);
    const name = (body && body.type) || "text";
    return [name, short(body, record.text)];
  }
  if (record.kind === "close") return ["Close " + (record.code ?? "without a code"), record.reason || ""];
  if (record.kind === "eof") return [record.reset ? "connection reset" : "end of TCP", ""];
  if (record.kind === "http") return [((record.head || record.body || "").split(/\r?\n/)[0] || "HTTP"), ""];
  if (record.kind === "note") return ["note", JSON.stringify(record).slice(0, 80)];
  return [record.kind, record.base64 ? JSON.stringify(atob(record.base64).slice(0, 80)) : ""];
}

function short(body, text) {
  if (!body) return (text || "").slice(0, 80);
  const shown = [];
  if (body.stream_id !== undefined) shown.push("lane " + body.stream_id);
  if (body.sequence_number !== undefined) shown.push("#" + body.sequence_number);
  if (body.response && body.response.id) shown.push(brief(body.response.id) + " " + (body.response.status || ""));
  if (body.item && body.item.type) shown.push(body.item.type);
  if (body.delta !== undefined) shown.push(JSON.stringify(body.delta));
  if (body.error) shown.push(body.error.code + ": " + body.error.message);
  if (typeof body.input === "string") shown.push(JSON.stringify(body.input));
  if (Array.isArray(body.input)) shown.push(body.input.map(itemName).join(", "));
  if (body.previous_response_id) shown.push("after " + brief(body.previous_response_id));
  return shown.join(" · ").slice(0, 160);
}

// Enough of an id to tell it from others; the whole is in the message.
function brief(id) {
  return String(id).length > 16 ? String(id).slice(0, 14) + "…" : String(id);
}

function itemName(item) {
  if (!item || typeof item !== "object") return JSON.stringify(item);
  return item.type && item.type !== "message" ? item.type : item.role + " message";
}

function pretty(record) {
  const body = record.kind === "text" ? parsed(record.text) : undefined;
  if (body !== undefined) return JSON.stringify(body, null, 1);
  return record.text || [record.head, record.body].filter(Boolean).join("") || JSON.stringify(record, null, 1);
}

function row(record, place, marked, many) {
  const [name, more] = label(record);
  const arrow = make("details", { class: "arrow" });
  const summary = make("summary", {});
  if (many) summary.append(make("span", { class: "conn" }, record.conn), " ");
  summary.append(make("b", {}, name), " ", make("span", { class: "short" }, more));
  arrow.append(summary);
  arrow.addEventListener("toggle", () => {
    if (arrow.open && arrow.childElementCount === 1) arrow.append(make("pre", {}, pretty(record)));
  });
  const kind = record.kind === "note" ? "note" : record.dir;
  const item = make("li", { class: `rec ${kind}${place === marked ? " marked" : ""}` });
  item.append(make("time", {}, (record.t ?? 0).toFixed(3) + " s"), arrow);
  return item;
}

// A run of deltas says little: its middle is folded away.
function folded(records, marked) {
  const out = [];
  const isDelta = (record) => record.kind === "text" && /"type":\s*"response\.[a-z_.]+\.delta"/.test(record.text);
  for (let at = 0; at < records.length; at++) {
    let end = at;
    while (end < records.length && isDelta(records[end]) && end !== marked) end++;
    if (end - at > 5) {
      out.push([records[at], at], [records[at + 1], at + 1], [end - at - 3, -1], [records[end - 1], end - 1]);
      at = end - 1;
    } else out.push([records[at], at]);
  }
  return out;
}

function drawTrace(records, marked, dropped) {
  const list = make("ol", { class: "trace" });
  list.append(make("li", { class: "ends" }, make("span", {}, "client"), make("span", {}, "server")));
  const many = new Set(records.map((record) => record.conn)).size > 1;
  for (const [record, place] of folded(records, marked)) {
    if (place >= 0) list.append(row(record, place, marked, many));
    else list.append(fold(`${record} more deltas`));
  }
  if (dropped) list.append(fold(`${dropped} more records`));
  return list;
}

function fold(text) {
  return make("li", { class: "rec fold" }, make("time", {}), make("div", { class: "arrow" }, text));
}

// --- clauses -----------------------------------------------------------------------------------------

// `code` in the prose.
function prose(text) {
  return text.split("`").map((piece, place) => (place % 2 ? make("code", {}, piece) : piece));
}

function details(clause) {
  const more = make("div", { class: "more" });
  const facts = [clause.keyword, clause.profile, clause.provenance, clause.place, clause.required ? "required" : ""];
  more.append(make("p", { class: "quiet" }, facts.filter(Boolean).join(" · ")));
  if (clause.reason) more.append(make("p", { class: "reason" }, clause.reason));
  if (clause.cases.length) more.append(make("p", { class: "quiet" }, "judged in: " + clause.cases.join(", ")));
  for (const one of clause.evidence) {
    const found = data.traces[one.case];
    more.append(make("h3", {}, `${one.case} ${one.place}`));
    if (one.detail && one.detail !== clause.reason) more.append(make("p", { class: "reason" }, one.detail));
    if (!found) continue;
    const trace = drawTrace(found.records, one.record, found.dropped);
    const marked = trace.querySelector(".marked");
    if (marked) more.append(jump(marked));
    more.append(trace);
  }
  return more;
}

function jump(marked) {
  const button = make("button", { class: "jump", type: "button" }, "show the message in question");
  button.addEventListener("click", () => {
    marked.querySelector("details").open = true;
    marked.scrollIntoView({ block: "center" });
  });
  return button;
}

function clauseRow(clause) {
  const box = make("details", { class: "clause", id: clause.id });
  box.append(make("summary", {},
    make("span", { class: "v v-" + clause.verdict }, clause.verdict),
    make("span", { class: "id" }, clause.id),
    make("span", { class: "quiet" }, clause.profile),
    make("span", { class: "text" }, ...prose(clause.text))));
  box.addEventListener("toggle", () => {
    if (box.open && box.childElementCount === 1) box.append(details(clause));
  });
  return box;
}

function wanted(clause, filter) {
  if (filter.verdict && clause.verdict !== filter.verdict) return false;
  if (filter.profile && clause.profile !== filter.profile) return false;
  if (filter.required && !clause.required) return false;
  return filter.words.every((word) => (clause.id + " " + clause.text + " " + clause.reason).toLowerCase().includes(word));
}

function start() {
  const list = document.getElementById("clauses");
  const rows = data.clauses.map((clause) => [clause, clauseRow(clause)]);
  list.append(...rows.map(([, box]) => box));
  const [search, verdict, profile, required, count] =
    ["search", "verdict", "profile", "required", "count"].map((id) => document.getElementById(id));
  const show = () => {
    const filter = {
      words: search.value.toLowerCase().split(/\s+/).filter(Boolean),
      verdict: verdict.value, profile: profile.value, required: required.checked,
    };
    let shown = 0;
    for (const [clause, box] of rows) {
      box.hidden = !wanted(clause, filter);
      shown += !box.hidden;
    }
    count.textContent = `${shown} of ${rows.length} clauses`;
  };
  for (const input of [search, verdict, profile, required]) input.addEventListener("input", show);
  show();
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target) { target.open = true; target.scrollIntoView(); }
}

if (data.clauses) start();
